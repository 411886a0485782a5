"""Receives files that workers have saved on other machines, and writes them here, under the same relative paths.

Paths and pieces are not trusted: files land below one folder only, and replace a file only when they are complete.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from weft.core.errors import CheckpointError
from weft.model_files import PartialFile
from weft.runtime.seats.returned_files import FilePiece


@dataclass
class Arrival:
    """A file that has not arrived completely."""

    part: PartialFile
    file: BinaryIO
    num_bytes: int = 0


class ReturnedFiles:
    """The returned files of one run, below `folder`; None: it brings none back."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else folder.resolve()
        self._arrivals: dict[tuple[int, str], Arrival] = {}
        self.brought: list[Path] = []
        """Paths of the files that have arrived, as the script named them."""

    def take(self, rank: int, piece: FilePiece) -> str | None:
        """Append a piece to its file. Returns None, or why the file cannot be written: then it is dropped."""
        key = rank, piece.path
        try:
            arrival = self._arrivals.get(key)
            if arrival is None:
                arrival = self._arrivals[key] = self._begin(rank, piece.path)
            if piece.start != arrival.num_bytes:
                raise ValueError(f"a piece from byte {piece.start} on came where {arrival.num_bytes} were there")
            arrival.file.write(piece.piece)
            arrival.num_bytes += len(piece.piece)
            if piece.is_last:
                arrival.file.close()
                arrival.part.put_in_place()
                self.brought.append(Path(piece.path))
                del self._arrivals[key]
        except (OSError, ValueError, CheckpointError) as error:
            self._drop(key)
            return str(error.strerror or error) if isinstance(error, OSError) else str(error).splitlines()[0]
        return None

    def _begin(self, rank: int, path: str) -> Arrival:
        if self._folder is None:
            raise ValueError("this run brings no files back")
        named = PurePath(path)
        goal = self._folder / named
        if named.is_absolute() or not goal.resolve().is_relative_to(self._folder) or ".." in named.parts:
            raise ValueError("only files below the folder that a script runs in are brought back")
        goal.parent.mkdir(parents=True, exist_ok=True)
        part = PartialFile(goal, f"{os.getpid()}.{rank}")
        return Arrival(part, part.path.open("wb"))

    def _drop(self, key: tuple[int, str]) -> None:
        arrival = self._arrivals.pop(key, None)
        if arrival is not None:
            arrival.file.close()
            arrival.part.drop()

    def close(self) -> None:
        """Delete files that have not arrived completely."""
        for key in list(self._arrivals):
            self._drop(key)
