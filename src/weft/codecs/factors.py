"""Sufficient factors: the errors and activations whose product a layer's gradient is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.matrices import Matrix, finite, matrices, rest
from weft.codecs.sparse import check_numbers, up_to_word
from weft.core.errors import CodecError, ConfigError
from weft.core.names import Carries

Captured = Sequence[tuple[int, Array, Array]]
"""(which tensor of the form, errors: batch by rows, activations: batch by columns), whose product is its gradient."""


@dataclass(frozen=True)
class Factors(Codec):
    """Errors and activations of linear layers instead of their product (Xie et al. 2016; Chilimbi et al. 2014).

    The receiver multiplies them. Chosen for each matrix by bytes, as Poseidon does: only where batch * (rows +
    columns) is less than rows * columns. A payload is the batch of each matrix (uint32; 0: as it is), zeros up to a
    multiple of 8 bytes; then for each matrix its errors and activations, or itself; then what is in no matrix. With a
    residual, which no factors have, everything travels as it is.
    """

    carries: ClassVar[frozenset[Carries]] = frozenset({Carries.GRADIENT})
    varies: ClassVar[bool] = True
    captures: ClassVar[bool] = True

    @property
    def wants_feedback(self) -> bool:
        return False

    def size(self, form: Form, clock: int = 0) -> int:
        return up_to_word(4 * len(matrices(form))) + form.num_bytes

    def encode(
        self,
        values: Array,
        residual: Array | None,
        form: Form,
        turn: Turn,
        given: "Array | Captured | None" = None,
    ) -> Encoded:
        values, num_not_finite = finite(values)
        captured = {} if given is None or residual is not None else self._shorter(given, form)
        if residual is not None:
            values = values + residual
            residual[:] = 0
        parts: list[Array] = []
        batches = np.zeros(up_to_word(4 * len(matrices(form))) // 4, np.uint32)
        for index, matrix in enumerate(matrices(form)):
            if matrix.tensor in captured:
                errors, activations = captured[matrix.tensor]
                batches[index] = len(errors)
                parts += [errors, activations]
            else:
                parts.append(matrix.of(values))
        parts += [values[part] for part in rest(form, matrices(form))]
        flat = [np.ascontiguousarray(part, form.dtype).reshape(-1).view(np.uint8) for part in parts]
        return Encoded(np.concatenate([batches.view(np.uint8), *flat]), num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        start = up_to_word(4 * len(matrices(form)))
        if len(payload) < start:
            raise CodecError(f"a payload has {len(payload)} bytes, but {start} only for its batches.")
        batches = self._batches(payload, form)
        for batch, matrix in zip(batches, matrices(form)):
            if not is_shorter(int(batch), matrix):
                raise CodecError(
                    f"factors of a matrix of {matrix.num_rows} by {matrix.num_columns} have a batch of {batch}, but "
                    "the matrix itself is shorter: the payload is broken, or of another codec."
                )
        size = start + form.itemsize * sum(self._lengths(batches, form))
        if len(payload) != size:
            raise CodecError(f"a payload has {len(payload)} bytes, but with its batches it becomes {size}.")
        numbers = payload[start:].view(form.dtype)
        check_numbers(numbers)
        highest = float(batches.max(initial=0)) * float(np.abs(numbers).max(initial=0))
        if highest:
            check_numbers(numbers, max(1.0, highest))

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        numbers = payload[up_to_word(4 * len(matrices(form))) :].view(form.dtype)
        factor, start = form.dtype.type(scale), 0
        for batch, matrix in zip(self._batches(payload, form), matrices(form)):
            stop = start + number_of(int(batch), matrix)
            sums = matrix.of(into)
            if batch:
                middle = start + int(batch) * matrix.num_rows
                errors = numbers[start:middle].reshape(batch, matrix.num_rows)
                sums += factor * (errors.T @ numbers[middle:stop].reshape(batch, matrix.num_columns))
            else:
                sums += factor * numbers[start:stop].reshape(matrix.num_rows, matrix.num_columns)
            start = stop
        for part in rest(form, matrices(form)):
            into[part] += factor * numbers[start : start + part.stop - part.start]
            start += part.stop - part.start

    def _shorter(self, given: "Array | Captured", form: Form) -> dict[int, tuple[Array, Array]]:
        """The factors that are shorter than their product, and finite."""
        known = {matrix.tensor: matrix for matrix in matrices(form)}
        found = {}
        for tensor, errors, activations in given:
            matrix = known.get(tensor)
            if matrix is None or (len(errors), *errors.shape[1:], *activations.shape[1:]) != (
                len(activations),
                matrix.num_rows,
                matrix.num_columns,
            ):
                raise ConfigError(
                    f"factors of {errors.shape} and {activations.shape} do not make tensor {tensor}.\n"
                    "  Give errors of batch by rows and activations of batch by columns."
                )
            if (
                len(errors)
                and is_shorter(len(errors), matrix)
                and np.isfinite(errors).all()
                and np.isfinite(activations).all()
            ):
                found[tensor] = (errors, activations)
        return found

    def _batches(self, payload: Payload, form: Form) -> NDArray[np.uint32]:
        return payload[: 4 * len(matrices(form))].view(np.uint32)

    def _lengths(self, batches: NDArray[np.uint32], form: Form) -> list[int]:
        """Numbers of each matrix, and of all that is in none."""
        lengths = [number_of(int(batch), matrix) for batch, matrix in zip(batches, matrices(form))]
        return [*lengths, *(part.stop - part.start for part in rest(form, matrices(form)))]


def number_of(batch: int, matrix: Matrix) -> int:
    """How many numbers say a matrix."""
    return batch * (matrix.num_rows + matrix.num_columns) if batch else matrix.num_rows * matrix.num_columns


def is_shorter(batch: int, matrix: Matrix) -> bool:
    """Factors of a batch are shorter than the matrix; no batch is the matrix itself."""
    return not batch or batch * (matrix.num_rows + matrix.num_columns) < matrix.num_rows * matrix.num_columns
