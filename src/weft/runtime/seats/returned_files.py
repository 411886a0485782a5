"""Sends the engine, piece by piece, the files that a worker has saved on a machine other than the user's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

PIECE_BYTES = 2 << 20
"""Size of a piece. One piece is under way at a time: the next is sent when the engine has acknowledged it."""


class FilePiece(Struct, frozen=True, tag=True):
    """To the engine: the bytes of the saved file `path` from `start` on, for the user's machine."""

    path: str
    start: int
    piece: bytes
    is_last: bool


class Unsaved(Struct, frozen=True, tag=True):
    """To the engine: a model could not be written; `text` says why."""

    text: str
    number: int | None = None
    """The number of the save; None for a worker's own model."""


class PieceTaken(Struct, frozen=True, tag=True):
    """To a worker: the piece has arrived; `goes_on` says whether the rest is wanted."""

    goes_on: bool


def give_back(path: str, send: Callable[[FilePiece], Any], expect: Callable[[type[Any]], Any]) -> None:
    """Send the file `path` to the engine. If the engine refuses it, the engine tells the user."""
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
