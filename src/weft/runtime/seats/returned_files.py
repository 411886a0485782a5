"""Files that a worker saves on a machine that is not the user's: they are given to the engine, piece by piece."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

PIECE_BYTES = 2 << 20
"""The next piece leaves when the engine has this one: whatever a file's size, one piece of it is under way."""


class FilePiece(Struct, frozen=True, tag=True):
    """To the engine: a piece of a file that this worker saved, for the machine on which the user is."""

    path: str
    start: int
    piece: bytes
    is_last: bool


class Unsaved(Struct, frozen=True, tag=True):
    """To the engine: the disk could not take a model; in words."""

    text: str
    number: int | None = None
    """Which save of all workers it was, if it was one."""


class PieceTaken(Struct, frozen=True, tag=True):
    """To a worker: this piece is there; whether the rest is wanted."""

    goes_on: bool


def give_back(path: str, send: Callable[[FilePiece], Any], expect: Callable[[type[Any]], Any]) -> None:
    """Let the engine have a file; it may not want it, and says so to the user itself."""
    size = Path(path).stat().st_size
    with open(path, "rb") as file:
        start = 0
        while True:
            piece = file.read(PIECE_BYTES)
            is_last = start + len(piece) >= size or not piece
            send(FilePiece(path, start, piece, is_last))
            if not expect(PieceTaken).goes_on or is_last:
                return
            start += len(piece)
