"""Vectors whose sum is known."""

import numpy as np
import pytest

from weft.bench.contenders import sums
from weft.bench.contenders.sums import Vector, compete, num_elements, total, values
from weft.bench.serving import Task

TASK = Task("nowhere", "fake", "64KiB", 2)


def test_sizes_are_read_as_numbers_of_float32() -> None:
    assert [num_elements(size) for size in ("64KiB", "1MiB", "128MiB")] == [1 << 14, 1 << 18, 1 << 25]


def test_the_values_of_all_ranks_add_up_exactly_to_the_total() -> None:
    assert np.array_equal(sum(values(rank, 1000) for rank in range(4)), total(4, 1000))


def test_a_contender_that_sums_rightly_may_serve_and_sums_zeros_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Vector] = []
    monkeypatch.setattr(sums, "serve", lambda task, reduce: served.append(reduce()))
    vector = np.empty(100, np.float32)

    def reduce() -> Vector:
        vector[:] += values(1, 100) if vector.any() else 0
        return vector

    compete(TASK, 0, vector, reduce)
    assert not served[0].any()


def test_a_contender_that_sums_wrongly_is_refused() -> None:
    vector = np.empty(100, np.float32)
    with pytest.raises(ArithmeticError, match="rank 1 has 100 wrong sums of 100, the first at 0"):
        compete(TASK, 1, vector, lambda: vector)
