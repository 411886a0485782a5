"""Which parts of an array are matrices, and which are not: what powersgd and factors have in common."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from weft.codecs.codec import Array, Form


class Matrix(NamedTuple):
    """A tensor of 2 or more dimensions, seen as its first one by all others. `tensor` is its place among the form's."""

    tensor: int
    start: int
    num_rows: int
    num_columns: int

    @property
    def stop(self) -> int:
        return self.start + self.num_rows * self.num_columns

    def of(self, numbers: Array) -> Array:
        """The matrix, within an array."""
        return numbers[self.start : self.stop].reshape(self.num_rows, self.num_columns)


@lru_cache(maxsize=256)
def matrices(form: Form) -> tuple[Matrix, ...]:
    """All of a form, in the order of their places."""
    found = [
        Matrix(index, start, shape[0], int(np.prod(shape[1:], dtype=np.int64)))
        for index, (start, shape) in enumerate(form.tensors)
        if len(shape) >= 2 and 0 not in shape
    ]
    return tuple(sorted(found, key=lambda matrix: matrix.start))


def rest(form: Form, chosen: tuple[Matrix, ...]) -> Iterator[slice]:
    """What is not in these matrices, from left to right."""
    start = 0
    for matrix in chosen:
        if matrix.start > start:
            yield slice(start, matrix.start)
        start = matrix.stop
    if form.num_elements > start:
        yield slice(start, form.num_elements)


def finite(values: Array) -> tuple[Array, int]:
    """The values with 0 where one is not finite, and how many those are."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        values = values.copy()
        values[bad] = 0
    return values, len(bad)
