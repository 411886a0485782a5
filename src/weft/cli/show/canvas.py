"""A small page of characters: lines are braille dots, text stands on top of them."""

from math import floor

DOT_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of each dot in a braille character, by column and row of its 2 x 4 dots."""

BRAILLE = 0x2800


class Canvas:
    """`columns` x `rows` characters; 2 dots to a column and 4 to a row, which makes them square."""

    def __init__(self, columns: int, rows: int) -> None:
        self._dots = [[0] * columns for _ in range(rows)]
        self._text: dict[tuple[int, int], str] = {}

    def dot(self, x: int, y: int) -> None:
        """Set one dot; x goes right, y goes down."""
        self._dots[y // 4][x // 2] |= DOT_BITS[x % 2][y % 4]

    def line(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Set the dots from start to end."""
        (x0, y0), (x1, y1) = start, end
        num_dots = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
        for i in range(num_dots + 1):
            self.dot(floor(x0 + (x1 - x0) * i / num_dots + 0.5), floor(y0 + (y1 - y0) * i / num_dots + 0.5))

    def write(self, column: int, row: int, text: str) -> None:
        """Put text over whatever dots are there."""
        for i, character in enumerate(text):
            self._text[column + i, row] = character

    def __str__(self) -> str:
        return "\n".join(
            "".join(self._character(column, row) for column in range(len(line))).rstrip()
            for row, line in enumerate(self._dots)
        )

    def _character(self, column: int, row: int) -> str:
        bits = self._dots[row][column]
        return self._text.get((column, row)) or (chr(BRAILLE + bits) if bits else " ")
