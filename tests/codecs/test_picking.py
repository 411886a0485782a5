"""Which numbers are the largest, exactly."""

import numpy as np
import pytest

from weft.codecs import Form
from weft.codecs.picking import SAMPLED_FROM, PickInput, Velocity, among, bracket, gather, largest_of_blocks, sizes_of

NONE = np.empty(0, np.int64)


def test_ties_go_to_the_first_and_what_is_not_finite_comes_last() -> None:
    total = np.array([1, -2, 2, 0, 2], np.float32)
    assert gather(total, None, Form(5), 2)[1].tolist() == [1, 2]
    assert gather(total, None, Form(5), 4)[1].tolist() == [0, 1, 2, 4]
    total[2] = np.nan
    assert gather(total, None, Form(5), 4)[1].tolist() == [0, 1, 3, 4]
    assert gather(total, None, Form(5), 5)[1].tolist() == [0, 1, 2, 3, 4]


def test_blocks_have_their_largest_each() -> None:
    total = np.array([1, -2, 2, 0, 2, 9, 9], np.float32)
    assert largest_of_blocks(PickInput(total, NONE), 1, 3, 3).tolist() == [1, 5, 6]
    assert largest_of_blocks(PickInput(total, np.array([5])), 1, 3, 3).tolist() == [1, 4, 6]
    assert largest_of_blocks(PickInput(np.zeros(5), NONE), 2, 4, 3).tolist() == [0, 1, 4]


def test_the_sum_is_in_the_residual_except_where_it_is_not_finite() -> None:
    values, residual = np.array([1, np.inf, 3e38], np.float32), np.array([1, 2, 3e38], np.float32)
    gathered, _ = gather(values, residual, Form(3))
    assert gathered.total is residual
    assert residual.tolist() == [2, 2, np.float32(3e38)]
    assert gathered.bad.tolist() == [1, 2]
    assert sizes_of(gathered).tolist()[1:] == [-1, -1]
    assert gather(values, None, Form(3))[0].total is values


def test_a_velocity_is_moved_before_it_is_added() -> None:
    values, residual, velocity = np.array([1.0, np.nan]), np.array([10.0, 10.0]), np.array([4.0, 4.0])
    gather(values, residual, Form(2, 8), by=Velocity(0.5, 3.0, velocity))
    assert (residual.tolist(), velocity.tolist()) == ([15, 10], [5, 4])


@pytest.mark.parametrize("kind", ["random", "constant", "mostly zero", "large where it is not sampled", "few"])
def test_with_any_sample_the_largest_are_exact(kind: str) -> None:
    number, rng = SAMPLED_FROM + 77, np.random.default_rng(0)
    values = rng.standard_normal(number).astype(np.float32)
    if kind == "constant":
        values[:] = 3
    if kind == "mostly zero":
        values[rng.permutation(number)[: number - 50]] = 0
    if kind == "large where it is not sampled":
        values[: number // 200] *= 1e6
    for k in (1, 100, number // 100, number // 2, number):
        expected = np.sort(np.argsort(-np.abs(values), kind="stable")[:k])
        np.testing.assert_array_equal(gather(values, None, Form(number), k)[1], expected)


def test_a_bracket_has_a_few_more_than_the_fraction() -> None:
    sizes = np.random.default_rng(0).permutation(10_000).astype(np.int32)
    assert 200 > (sizes >= bracket(sizes, 0.01)).sum() > 100 + 30
    assert bracket(sizes, 1.0) == 0


def test_among_candidates_the_largest_are_chosen() -> None:
    assert among(np.array([3, 5, 9]), np.array([7, 8, 7], np.int32), 2).tolist() == [3, 5]
