"""Which numbers are the largest, exactly."""

import numpy as np
import pytest

from weft.codecs import Form
from weft.codecs.picking import SAMPLED_FROM, PickInput, Velocity, among, bracket, gather, sizes_of, take_of_blocks

NONE = np.empty(0, np.int64)


def test_ties_go_to_the_first_and_what_is_not_finite_comes_last() -> None:
    total = np.array([1, -2, 2, 0, 2], np.float32)
    assert gather(total, None, Form(5), 2)[1].tolist() == [1, 2]
    assert gather(total, None, Form(5), 4)[1].tolist() == [0, 1, 2, 4]
    total[2] = np.nan
    assert gather(total, None, Form(5), 4)[1].tolist() == [0, 1, 3, 4]
    assert gather(total, None, Form(5), 5)[1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("number", "block"), [(1, 1), (2, 4), (16, 512), (60, 70), (512, 512), (3, 2000)])
@pytest.mark.parametrize("kind", ["random", "few sizes", "rising", "falling", "mostly zero", "half not finite"])
def test_blocks_have_their_largest_each(kind: str, number: int, block: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    values: np.ndarray = rng.standard_normal(5000).astype(dtype)
    if kind == "few sizes":
        values = rng.integers(-2, 3, 5000).astype(dtype)
    if kind in ("rising", "falling"):
        values *= np.exp(np.linspace(0, 60 if kind == "rising" else -60, 5000)).astype(dtype)
    if kind == "mostly zero":
        values[rng.permutation(5000)[:4900]] = 0
    if kind == "half not finite":
        values[::2] = np.nan
        values[800:1600:6] = np.inf
    form = Form(5000, values.itemsize)
    residual: np.ndarray = np.zeros(5000, dtype)
    is_bad = ~np.isfinite(values)
    sizes = np.where(is_bad, -1, np.abs(values))
    starts = range(0, 5000, block)
    expected = [start + np.sort(np.argsort(-sizes[start:][:block], kind="stable")[:number]) for start in starts]
    picked = take_of_blocks(gather(values, residual, form)[0], residual, form, number, block)
    np.testing.assert_array_equal(picked.places, np.concatenate(expected))
    np.testing.assert_array_equal(picked.numbers, np.where(is_bad, 0, values)[picked.places])
    assert picked.num_not_finite == is_bad.sum()
    assert not residual[picked.places].any()
    left = np.setdiff1d(np.flatnonzero(~is_bad), picked.places)
    np.testing.assert_array_equal(residual[left], values[left])


def test_numbers_of_blocks_that_are_not_finite_keep_their_residual_and_without_one_values_stay() -> None:
    values, residual = np.array([np.nan, 2, 1], np.float32), np.array([5, 0, 0], np.float32)
    picked = take_of_blocks(gather(values, residual, Form(3))[0], residual, Form(3), 3, 3)
    assert (picked.places.tolist(), picked.numbers.tolist(), residual.tolist()) == ([0, 1, 2], [0, 2, 1], [5, 0, 0])
    assert take_of_blocks(PickInput(values, np.array([0])), None, Form(3), 1, 2).numbers.tolist() == [2, 1]
    assert values.tolist()[1:] == [2, 1]


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
