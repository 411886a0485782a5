"""Tensors of one type laid one after another in one piece of memory."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from weft.adapters.torch.bucket_layout import ALIGN_BYTES, BucketLayout, bucketed, by_type

SHAPES = st.lists(st.lists(st.integers(1, 5), max_size=3).map(tuple), min_size=1, max_size=6)
KINDS = st.sampled_from([torch.float16, torch.float32, torch.float64])


def adopt(flat: BucketLayout, memory: torch.Tensor) -> None:
    """Let the tensors live in this memory, with the values that they have."""
    flat.write(memory)
    flat.move(memory)


def tensors(shapes: list[tuple[int, ...]], kind: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.full(shape, 1.0 + i, dtype=kind) for i, shape in enumerate(shapes)]


@given(shapes=SHAPES, kind=KINDS)
def test_tensors_flags_and_gaps_are_the_whole_bucket_and_lie_on_cache_lines(
    shapes: list[tuple[int, ...]], kind: torch.dtype
) -> None:
    flat = BucketLayout(tensors(shapes, kind))
    taken = [place for start, flag in zip(flat.starts, flat.flags(), strict=True) for place in range(start, flag + 1)]
    assert len(set(taken)) == len(taken) == sum(tensor.numel() + 1 for tensor in flat.tensors)
    assert max(taken) == flat.num_elements - 1
    assert all(start * flat.itemsize % ALIGN_BYTES == 0 for start in flat.starts)
    covered = [place for start, stop in flat.stretches() for place in range(start, stop)]
    assert covered == list(range(flat.num_elements))


@given(shapes=SHAPES, kind=KINDS)
def test_tensors_keep_their_values_when_they_move_and_live_in_the_memory_from_then_on(
    shapes: list[tuple[int, ...]], kind: torch.dtype
) -> None:
    mine = tensors(shapes, kind)
    flat = BucketLayout(mine)
    memory = torch.zeros(flat.num_elements, dtype=kind)
    adopt(flat, memory)
    for i, (tensor, shape) in enumerate(zip(mine, shapes, strict=True)):
        assert torch.equal(tensor, torch.full(shape, 1.0 + i, dtype=kind))
    memory.fill_(7.0)
    assert all((tensor == 7).all() for tensor in mine)
    mine[0].fill_(3.0)
    assert (flat.views(memory)[0] == 3).all()


def test_a_parameter_stays_the_same_object_and_a_leaf() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 3).T)
    flat = BucketLayout([parameter])
    adopt(flat, torch.zeros(flat.num_elements))
    assert (parameter.is_leaf, parameter.requires_grad, tuple(parameter.shape)) == (True, True, (3, 2))
    (parameter * 2).sum().backward()
    assert parameter.grad is not None


def test_types_are_kept_apart_in_the_order_in_which_they_come() -> None:
    a, b, c = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
    assert [[id(tensor) for tensor in group] for group in by_type([a, b, c])] == [[id(a), id(c)], [id(b)]]
    assert by_type([]) == []


def test_buckets_are_filled_in_order_and_a_larger_tensor_has_one_of_its_own() -> None:
    sizes = [2, 10, 5, 5, 30, 1]
    buckets = bucketed([torch.zeros(size) for size in sizes], bytes_max=48)
    assert [[tensor.numel() for tensor in bucket] for bucket in buckets] == [[2, 10], [5, 5], [30], [1]]


def test_buckets_have_one_type_each() -> None:
    mixed = [torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(1)]
    assert [[tensor.dtype for tensor in bucket] for bucket in bucketed(mixed, 1 << 20)] == [
        [torch.float32, torch.float32],
        [torch.float64],
    ]
