"""Which numbers are the largest, exactly."""

import numpy as np

from weft.codecs import Form
from weft.codecs.picking import at_least, largest, largest_of_blocks, sum_up

NONE = np.empty(0, np.int64)


def test_ties_go_to_the_first_and_what_is_not_finite_comes_last() -> None:
    total = np.array([1, -2, 2, 0, 2], np.float32)
    assert largest(total, 2, NONE).tolist() == [1, 2]
    assert largest(total, 4, NONE).tolist() == [0, 1, 2, 4]
    assert largest(total, 4, np.array([2])).tolist() == [0, 1, 3, 4]


def test_blocks_have_their_largest_each() -> None:
    total = np.array([1, -2, 2, 0, 2, 9, 9], np.float32)
    assert largest_of_blocks(total, 1, 3, NONE).tolist() == [1, 5, 6]
    assert at_least(total, 2, np.array([5])).tolist() == [1, 2, 4, 6]


def test_the_sum_is_in_the_residual_except_where_it_is_not_finite() -> None:
    values, residual = np.array([1, np.inf, 3e38], np.float32), np.array([1, 2, 3e38], np.float32)
    total, bad = sum_up(values, residual, Form(3))
    assert total is residual
    assert residual.tolist() == [2, 2, np.float32(3e38)]
    assert bad.tolist() == [1, 2]
    assert sum_up(values, None, Form(3))[0].tolist() == [1, 0, np.float32(3e38)]
