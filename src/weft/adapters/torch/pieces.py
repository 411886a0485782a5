"""What a shared update is divided into: pieces, which are journaled and updated one by one, and segments of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from weft.adapters.torch.bucket_layout import BucketLayout

PIECE_BYTES = 2 << 20
"""Of parameters. Their old values and those of the optimizer's state stay in the cache, so that a journal costs little
more than reading them; smaller pieces would cost more by the optimizer's own overhead for each."""


class Piece(NamedTuple):
    """A part of a worker's stretch of a bucket. Where it begins and ends follows from the stretch alone, so that who
    finishes the update of a lost worker has the same pieces."""

    number: int
    """Its place among the pieces of all buckets."""
    bucket: int
    start: int
    stop: int


class Segment:
    """A part of a piece that one group of the optimizer updates as if it were one parameter."""

    def __init__(self, piece: Piece, group: int, first: int, start: int) -> None:
        self.piece = piece.number
        self.bucket = piece.bucket
        self.group = group
        self.first = first
        """The index of its first tensor in its bucket."""
        self.last = first
        self.start = start
        self.stop = start
        self.parameter: nn.Parameter
        self.gradient: Tensor
        self.num_shared = 0
        """Number of entries of its optimizer state that are in shared memory."""

    def place(self, params: Tensor, gradient: Tensor) -> None:
        self.parameter = nn.Parameter(params[self.start : self.stop], requires_grad=False)
        self.gradient = gradient[self.start : self.stop]
        self.parameter.grad = self.gradient


def pieces_of(spans: Sequence[tuple[int, int]], flats: Sequence[BucketLayout]) -> Iterator[Piece]:
    """The pieces of a worker's stretches of all buckets; an empty stretch has none."""
    number = 0
    for bucket, ((low, high), flat) in enumerate(zip(spans, flats, strict=True)):
        size = PIECE_BYTES // flat.itemsize
        for start in range(low, high, size):
            yield Piece(number, bucket, start, min(start + size, high))
            number += 1


def cut(piece: Piece, flat: BucketLayout, groups: Mapping[int, int], *, merge: bool) -> Iterator[Segment]:
    """The segments of a piece: one for each run of tensors of one group, or, without `merge`, one for each tensor.
    `groups` has the group of each tensor by its id; others are trained by nobody."""
    segment: Segment | None = None
    for number, (tensor, (start, stop)) in enumerate(zip(flat.tensors, flat.stretches(), strict=True)):
        start, stop, group = max(start, piece.start), min(stop, piece.stop), groups.get(id(tensor))
        if start >= stop:
            continue
        if segment is None or not merge or segment.group != group:
            if segment is not None:
                yield segment
            segment = None if group is None else Segment(piece, group, number, start)
        if segment is not None:
            segment.stop, segment.last = stop, number
    if segment is not None:
        yield segment
