"""Which parts of an array are matrices."""

import numpy as np

from weft.codecs import Form
from weft.codecs.matrices import finite, matrices, rest

FORM = Form(100, 4, ((2, (3, 2, 5)), (40, (7,)), (50, (4, 5))))


def test_tensors_of_two_or_more_dimensions_are_matrices_by_their_first() -> None:
    assert [tuple(matrix) for matrix in matrices(FORM)] == [(0, 2, 3, 10), (2, 50, 4, 5)]
    assert matrices(FORM)[1].of(np.arange(100))[1].tolist() == [55, 56, 57, 58, 59]


def test_the_rest_is_everything_else() -> None:
    assert list(rest(FORM, matrices(FORM))) == [slice(0, 2), slice(32, 50), slice(70, 100)]
    assert list(rest(FORM, ())) == [slice(0, 100)]


def test_what_is_not_finite_becomes_zero_in_a_copy() -> None:
    values = np.array([1.0, np.nan, np.inf])
    assert finite(values)[0].tolist() == [1, 0, 0]
    assert finite(values)[1] == 2
    assert np.isnan(values[1])
    assert finite(values[:1])[0].base is values
