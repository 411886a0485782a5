"""A small page of characters."""

from weft.cli.show.canvas import Canvas


def test_each_character_holds_two_by_four_dots() -> None:
    canvas = Canvas(1, 1)
    for y in range(4):
        canvas.dot(0, y)
    assert str(canvas) == "⡇"
    for y in range(4):
        canvas.dot(1, y)
    assert str(canvas) == "⣿"


def test_a_line_joins_its_ends() -> None:
    canvas = Canvas(4, 2)
    canvas.line((0, 0), (7, 7))
    assert str(canvas) == "⠑⢄\n  ⠑⢄"


def test_text_stands_on_top_of_lines_and_lines_end_without_spaces() -> None:
    canvas = Canvas(6, 2)
    canvas.line((0, 1), (5, 1))
    canvas.write(1, 0, "ab")
    assert str(canvas) == "⠒ab\n"
