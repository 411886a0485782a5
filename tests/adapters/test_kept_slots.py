"""What stores go on with besides parameters: each its own, or the mean of what all have left out."""

from typing import Any

import numpy as np
import pytest

from weft.adapters.kept_slots import KeptSlots
from weft.store.numpy import KEPT

LEFT_OUT = f"gradient_{KEPT[0]}"


def part(rank: int) -> dict[str, Any]:
    """What a worker has kept, and the server of its process."""
    left_out = {0: np.full(2, float(rank)), 1: np.full(3, 10.0 * rank)}
    worker = {LEFT_OUT: left_out, "momentum": {0: np.full(2, 5.0 + rank)}}
    return {"worker": worker, "servers": {rank: {"v": {0: np.full(2, -rank)}}}}


def kept(rank: int, num_workers: int, node: int, *sizes: int) -> Any:
    """What `node` of worker `rank`'s process goes on with from a checkpoint of two workers."""
    slots = KeptSlots([part(0), part(1)], rank, num_workers).of(node, sizes or (2, 3))
    return {slot: {bucket: array.tolist() for bucket, array in arrays.items()} for slot, arrays in slots.items()}


@pytest.mark.parametrize("rank", [0, 1])
def test_as_many_workers_and_their_servers_go_on_with_their_own(rank: int) -> None:
    assert kept(rank, 2, rank) == {
        LEFT_OUT: {0: [rank] * 2, 1: [10.0 * rank] * 3},
        "momentum": {0: [5.0 + rank] * 2},
    }
    assert kept(rank, 2, 2 + rank) == {"v": {0: [-rank] * 2}}


@pytest.mark.parametrize("num_workers", [1, 3])
def test_others_take_the_mean_of_what_was_left_out_and_the_first_ones_state(num_workers: int) -> None:
    for rank in range(num_workers):
        assert kept(rank, num_workers, rank) == {LEFT_OUT: {0: [0.5] * 2, 1: [5.0] * 3}, "momentum": {0: [5.0] * 2}}
    assert kept(0, num_workers, num_workers) == {}, "servers begin anew"


def test_what_does_not_fit_the_buckets_is_not_taken() -> None:
    assert kept(0, 2, 0, 2, 4) == {"momentum": {0: [5.0] * 2}}
    assert kept(0, 2, 0, 2) == {"momentum": {0: [5.0] * 2}}
