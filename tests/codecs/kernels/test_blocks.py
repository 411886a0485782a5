"""The largest of a block: candidates, and a threshold among them."""

import numpy as np
import pytest

from weft.codecs.kernels.blocks import FILLED, WORD, bisect, compress, emit, num_from


def filled(sizes: list[int]) -> np.ndarray:
    """As kernels have them: filled up with sizes below all others."""
    return np.array(sizes + [FILLED] * WORD, np.int32)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 300])
def test_those_that_reach_a_size_are_found_in_their_order(length: int) -> None:
    values = np.random.default_rng(length).integers(-1, 9, length)
    sizes, places, found = filled(values.tolist()), np.zeros(length + WORD, np.int64), np.zeros(length + WORD, np.int32)
    for least in (-1, 4, 8, 9):
        expected = np.flatnonzero(values >= least)
        assert num_from(sizes, length, least) == len(expected)
        assert compress(sizes, length, np.int32(least), places, found) == len(expected)
        assert places[: len(expected)].tolist() == expected.tolist()
        assert found[: len(expected)].tolist() == values[expected].tolist()
        assert (found[len(expected) :][: WORD - 1] == FILLED).all()


@pytest.mark.parametrize(("wanted", "num_left"), [(1, 1), (2, 3), (3, 3), (4, 5), (5, 5), (6, 7), (7, 7)])
def test_a_threshold_is_raised_while_enough_reach_it(wanted: int, num_left: int) -> None:
    values = [7, 3, 9, -1, 7, 3, -1]
    low = bisect(filled(values), 7, wanted, wanted, np.int32(-1), 7, np.int32(2**31 - 1))
    assert sum(value >= low for value in values) == num_left
    assert bisect(filled(values), 7, wanted, 7, np.int32(-1), 7, np.int32(9)) == -1, "few enough"


def test_of_those_that_equal_the_threshold_the_first_are_taken() -> None:
    sizes, chosen = filled([7, 3, 7, 9, 7]), np.zeros(3, np.int64)
    emit(sizes, 5, np.int32(7), 3, np.array([1, 2, 30, 40, 50]), 100, chosen)
    assert chosen.tolist() == [101, 130, 140]
