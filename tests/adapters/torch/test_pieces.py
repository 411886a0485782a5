"""Where a worker's stretches are cut."""

import pytest
import torch
from torch import nn

from weft.adapters.torch import pieces
from weft.adapters.torch.bucket_layout import BucketLayout
from weft.adapters.torch.pieces import Piece, cut, pieces_of


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 160)


def flat(*sizes: int, dtype: torch.dtype = torch.float32) -> BucketLayout:
    return BucketLayout([nn.Parameter(torch.zeros(size, dtype=dtype)) for size in sizes])


@pytest.mark.usefixtures("small")
def test_pieces_are_numbered_through_all_buckets_and_empty_stretches_have_none() -> None:
    flats = [flat(127), flat(9), flat(63, dtype=torch.float64)]
    assert list(pieces_of([(32, 128), (10, 10), (0, 30)], flats)) == [
        Piece(0, 0, 32, 72),
        Piece(1, 0, 72, 112),
        Piece(2, 0, 112, 128),
        Piece(3, 2, 0, 20),
        Piece(4, 2, 20, 30),
    ]


def test_a_piece_has_a_segment_for_each_run_of_a_group_and_none_for_what_nobody_trains() -> None:
    layout = flat(15, 15, 15, 15)
    ids = [id(tensor) for tensor in layout.tensors]
    groups = {ids[0]: 0, ids[1]: 0, ids[3]: 1}
    found = [
        (s.piece, s.group, s.first, s.last, s.start, s.stop)
        for s in cut(Piece(5, 0, 8, 64), layout, groups, merge=True)
    ]
    assert found == [(5, 0, 0, 1, 8, 32), (5, 1, 3, 3, 48, 64)]
    apart = [(s.first, s.last, s.start, s.stop) for s in cut(Piece(5, 0, 8, 64), layout, groups, merge=False)]
    assert apart == [(0, 0, 8, 16), (1, 1, 16, 32), (3, 3, 48, 64)]


def test_a_tensor_that_crosses_pieces_has_a_segment_in_each() -> None:
    layout = flat(95)
    groups = {id(layout.tensors[0]): 0}
    for start, stop in ((0, 40), (40, 80), (80, 96)):
        assert [(s.first, s.start, s.stop) for s in cut(Piece(0, 0, start, stop), layout, groups, merge=True)] == [
            (0, start, stop)
        ]
