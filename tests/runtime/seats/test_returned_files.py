"""Files that a worker gives to its engine."""

from pathlib import Path
from typing import Any

import pytest

from weft.runtime.seats.returned_files import PIECE_BYTES, FilePiece, PieceTaken, give_back


@pytest.mark.parametrize("num_bytes", [0, 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_a_file_leaves_in_pieces_each_after_the_one_before_was_taken(tmp_path: Path, num_bytes: int) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes(range(256)) * (num_bytes // 256) + b"x" * (num_bytes % 256))
    under_way: list[FilePiece] = []
    came: list[FilePiece] = []

    def take(kind: type[Any]) -> PieceTaken:
        assert kind is PieceTaken
        assert len(under_way) == 1
        came.append(under_way.pop())
        return PieceTaken(True)

    give_back(str(path), under_way.append, take)
    assert b"".join(piece.piece for piece in came) == path.read_bytes()
    assert [piece.is_last for piece in came] == [False] * (len(came) - 1) + [True]
    assert [piece.start for piece in came] == [PIECE_BYTES * n for n in range(len(came))]
    assert under_way == []


def test_the_rest_of_a_file_that_is_not_wanted_stays(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"x" * (2 * PIECE_BYTES))
    sent: list[FilePiece] = []
    give_back(str(path), sent.append, lambda kind: PieceTaken(False))
    assert len(sent) == 1
