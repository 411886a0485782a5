"""The arithmetic of Reduce: one order, one way of rounding, for every driver."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.actions import MAX, MEAN, OPS, SUM
from weft.store.reduction import STRETCH, reduce_arrays, reduce_into

NUMBERS = st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3)
WEIGHTS = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.0, 0.1]), min_size=3, max_size=3).filter(any)


@given(numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS), weights=WEIGHTS, op=st.sampled_from([MEAN, SUM]))
def test_means_and_sums_are_right_to_the_last_digits(
    numbers: tuple[list[float], ...], weights: list[float], op: str
) -> None:
    got = reduce_arrays([np.array(each) for each in numbers], weights, op)
    for place, value in enumerate(got):
        exact = [Fraction(weight) * Fraction(each[place]) for weight, each in zip(weights, numbers, strict=True)]
        expected = sum(exact) / (sum(map(Fraction, weights)) if op == MEAN else 1)
        assert abs(float(value) - float(expected)) <= 1e-13 * float(sum(map(abs, exact)) + 1)


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.1, 7e30])
def test_equal_weights_are_not_multiplied_in_only_to_be_divided_out_again(weight: float) -> None:
    payloads = [np.array([x, 1e38], np.float32) for x in (0.1, 0.2, 0.7)]
    mean = reduce_arrays(payloads, [weight] * 3, MEAN)
    expected = (payloads[0] + payloads[1] + payloads[2]) / np.float32(3)
    assert mean.tobytes() == expected.tobytes()


@pytest.mark.parametrize("weight", [3.0, 7.0, 49.0])
def test_a_sum_of_equal_weights_is_multiplied_and_not_divided_by_an_inverse(weight: float) -> None:
    payloads = [np.arange(1.0, 1000.0), np.arange(1.0, 1000.0)]
    assert reduce_arrays(payloads, [weight] * 2, SUM).tolist() == [2 * weight * x for x in range(1, 1000)]


def test_unequal_weights_are_those_of_their_samples() -> None:
    payloads = [np.array([1.0]), np.array([5.0])]
    assert reduce_arrays(payloads, [3.0, 1.0], MEAN).tolist() == [2.0]
    assert reduce_arrays(payloads, [3.0, 1.0], SUM).tolist() == [8.0]
    assert reduce_arrays(payloads, [3.0, 1.0], MAX).tolist() == [5.0]


@pytest.mark.parametrize("op", OPS)
def test_who_has_no_weight_is_left_out_whatever_it_holds(op: str) -> None:
    payloads = [np.full(2, np.nan), np.array([1.0, 2.0]), np.array([3.0, 0.0])]
    without = reduce_arrays(payloads[1:], [2.0, 5.0], op)
    assert reduce_arrays(payloads, [0.0, 2.0, 5.0], op).tolist() == without.tolist()


@pytest.mark.parametrize("size", [1, STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH + 7])
@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
def test_long_arrays_are_reduced_in_stretches_with_the_same_bits(size: int, weights: list[float]) -> None:
    rng = np.random.default_rng(0)
    payloads = [rng.standard_normal(size).astype(np.float32) for _ in weights]
    whole = reduce_arrays(payloads, weights, MEAN)
    by_pieces = [reduce_arrays([p[i : i + 1000] for p in payloads], weights, MEAN) for i in range(0, size, 1000)]
    assert whole.tobytes() == np.concatenate(by_pieces).tobytes()


def test_half_precision_is_summed_in_single() -> None:
    payloads = [np.full(3, x, np.float16) for x in (2048.0, 1.0, 1.0)]
    assert reduce_arrays(payloads, [1.0] * 3, SUM).tolist() == [2050.0] * 3
    assert reduce_arrays(payloads, [1.0] * 3, SUM).dtype == np.float16


def test_the_result_may_be_put_where_it_is_wanted_and_contributions_stay() -> None:
    payloads = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    total = np.full(2, np.nan)
    reduce_into(total, payloads, [1.0, 1.0], MEAN)
    assert total.tolist() == [2.0, 3.0]
    assert [payload.tolist() for payload in payloads] == [[1, 2], [3, 4]]
