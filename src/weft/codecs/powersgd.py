"""PowerSGD: gradients of matrices as the product of two thin ones, found by one step of power iteration."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.matrices import Matrix, finite, matrices, rest
from weft.codecs.ranges import check_whole
from weft.codecs.sparse import check_numbers
from weft.core.errors import ConfigError

EVERY_BIT = (1 << 64) - 1
DEPENDENT = 1e-6
"""What is left of a column beside those before it, as a share of what it was, below which it says nothing new."""


def chosen(form: Form, rank: int) -> tuple[Matrix, ...]:
    """The matrices whose factors are smaller than they are."""
    return tuple(
        matrix
        for matrix in matrices(form)
        if rank <= min(matrix.num_rows, matrix.num_columns)
        and rank * (matrix.num_rows + matrix.num_columns) < matrix.num_rows * matrix.num_columns
    )


def orthogonal(factor: Array) -> Array:
    """Its columns, each of length 1 and at right angles to those before; one that depends on them becomes 0.

    Gram and Schmidt's, twice, in double precision: the same on every worker.
    """
    columns = factor.T.astype(np.float64)
    for index, column in enumerate(columns):
        length = np.linalg.norm(column)
        for _ in range(2):
            for before in columns[:index]:
                column -= (before @ column) * before
        left = np.linalg.norm(column)
        column *= 1.0 / left if left > DEPENDENT * length else 0.0
    return columns.T.astype(factor.dtype)


@dataclass(frozen=True)
class Factor(Codec):
    """One of the two factors of all matrices; payloads of several workers add up."""

    rank: int = 2
    adds_up: ClassVar[bool] = True

    def prepare(self, itemsize: int) -> None:
        """Nothing is compiled."""

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        check_numbers(payload.view(form.dtype), self.rank)

    def merge(self, into: Payload, keep: float, payload: Payload, scale: float, form: Form) -> None:
        sums = into.view(form.dtype)
        sums *= form.dtype.type(keep)
        sums += form.dtype.type(scale) * payload.view(form.dtype)

    def split(self, payload: Payload, form: Form) -> list[Array]:
        """The factor of each matrix, and what follows them."""
        numbers, found, start = payload.view(form.dtype), [], 0
        for matrix in chosen(form, self.rank):
            stop = start + self.rank * self.length(matrix)
            found.append(numbers[start:stop].reshape(self.length(matrix), self.rank))
            start = stop
        return [*found, numbers[start:]]

    def length(self, matrix: Matrix) -> int:
        """Rows of its factor."""
        raise NotImplementedError


@dataclass(frozen=True)
class Left(Factor):
    """Each matrix times its last right factor, which is given; at first, times random numbers that all share.

    That says nothing of the values by itself: if there is a residual, all of them are in it then.
    """

    leads_on: ClassVar[bool] = True

    def size(self, form: Form, clock: int = 0) -> int:
        return form.itemsize * self.rank * sum(matrix.num_rows for matrix in chosen(form, self.rank))

    def length(self, matrix: Matrix) -> int:
        return matrix.num_rows

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        values, num_not_finite = finite(values)
        if residual is not None:
            residual += values
            values = residual
        payload = np.empty(self.size(form), np.uint8)
        before = None if given is None else Right(self.rank).split(given, form)
        rng = np.random.default_rng((turn.common & EVERY_BIT, turn.clock & EVERY_BIT))
        for index, (matrix, factor) in enumerate(zip(chosen(form, self.rank), self.split(payload, form))):
            right = rng.standard_normal((matrix.num_columns, self.rank)).astype(form.dtype)
            if before is not None:
                right = begun(before[index], right)
            np.matmul(matrix.of(values), right, out=factor)
        return Encoded(payload, num_not_finite)


@dataclass(frozen=True)
class Right(Factor):
    """The transpose of each matrix times its left factor, given, made orthogonal; then what is in no matrix.

    If there is a residual, `left` has put the values there, and there they stay: only the sum of what all workers send
    says what is left out.
    """

    def size(self, form: Form, clock: int = 0) -> int:
        saved = sum(matrix.num_rows * matrix.num_columns for matrix in chosen(form, self.rank))
        factors = self.rank * sum(matrix.num_columns for matrix in chosen(form, self.rank))
        return form.itemsize * (form.num_elements - saved + factors)

    def length(self, matrix: Matrix) -> int:
        return matrix.num_columns

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        lefts = [orthogonal(left) for left in self._lefts(given, form)]
        return self.against(lefts, values if residual is None else residual, form)

    def against(self, lefts: list[Array], values: Array, form: Form) -> Encoded:
        """The payload for left factors that are orthogonal."""
        values, num_not_finite = finite(values)
        payload = np.empty(self.size(form), np.uint8)
        *factors, others = self.split(payload, form)
        for matrix, left, factor in zip(chosen(form, self.rank), lefts, factors, strict=True):
            np.matmul(matrix.of(values).T, left, out=factor)
        start = 0
        for part in rest(form, chosen(form, self.rank)):
            others[start : start + part.stop - part.start] = values[part]
            start += part.stop - part.start
        return Encoded(payload, num_not_finite)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        self.add_to([orthogonal(left) for left in self._lefts(given, form)], payload, into, scale, form)

    def add_to(self, lefts: list[Array], payload: Payload, into: Array, scale: float, form: Form) -> None:
        """into += scale * the products, and what is in no matrix."""
        *factors, others = self.split(payload, form)
        for matrix, left, factor in zip(chosen(form, self.rank), lefts, factors, strict=True):
            product = matrix.of(into)
            product += (form.dtype.type(scale) * left) @ factor.T
        start = 0
        for part in rest(form, chosen(form, self.rank)):
            into[part] += form.dtype.type(scale) * others[start : start + part.stop - part.start]
            start += part.stop - part.start

    def _lefts(self, given: Array | None, form: Form) -> list[Array]:
        if given is None:
            raise ConfigError("right factors need the left ones.\n  Give the payload of 'left' that was agreed on.")
        return Left(self.rank).split(given, form)[:-1]


@dataclass(frozen=True)
class PowerSGD(Codec):
    """Factors of rank `rank` instead of matrices (Vogels et al. 2019, algorithm 1), with feedback and warm start.

    Together: all send `left`, whose sum is then given when they send `right`, and both sums make the gradient; the sum
    of `right` is given with the next `left`. Feedback is then up to whoever knows both. Alone, from one to another:
    a payload is the orthogonal left factors and the payload of `right`; the last one may be given. Tensors of one
    dimension, what is between tensors, and matrices that are smaller than their factors travel as they are.
    """

    rank: int = 2

    def __post_init__(self) -> None:
        check_whole("powersgd", "rank", self.rank, 1, 4096, usual=2)

    def stages(self) -> tuple[Codec, ...]:
        return self.left, self.right

    @property
    def left(self) -> Left:
        return Left(self.rank)

    @property
    def right(self) -> Right:
        return Right(self.rank)

    def check_form(self, form: Form) -> None:
        super().check_form(form)
        ranks = [min(matrix.num_rows, matrix.num_columns) for matrix in matrices(form)]
        if ranks and max(ranks) < self.rank:
            raise ConfigError(
                f"rank of 'powersgd' is {self.rank}, but no matrix here has as many rows and columns: it is from 1 to "
                f"{max(ranks)}.\n  Use 'powersgd(rank={min(2, max(ranks))})'."
            )

    def size(self, form: Form, clock: int = 0) -> int:
        return self.left.size(form) + self.right.size(form)

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        total, num_not_finite = finite(values)
        if residual is not None:
            total = total + residual
        end = self.left.size(form)
        left = self.left.encode(total, None, form, turn, None if given is None else given[end:])
        factors = [orthogonal(factor) for factor in self.left.split(left.payload, form)[:-1]]
        right = self.right.against(factors, total, form)
        flat = [factor.reshape(-1).view(np.uint8) for factor in factors]
        payload = np.concatenate([*flat, right.payload])
        if residual is not None:
            residual[:] = total
            self.add(payload, residual, -1.0, form)
        return Encoded(payload, num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        end = self.left.size(form)
        highest = np.abs(payload[:end].view(form.dtype)).max(initial=1.0)
        check_numbers(payload[:end].view(form.dtype))
        check_numbers(payload[end:].view(form.dtype), self.rank * float(highest))

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        end = self.left.size(form)
        lefts = self.left.split(payload[:end], form)[:-1]
        self.right.add_to(lefts, payload[end:], into, scale, form)


def begun(before: Array, drawn: Array) -> Array:
    """Where to begin from the last factor: columns that said nothing are drawn anew, none is very large or small."""
    sizes = np.abs(before).max(axis=0)
    is_zero = sizes == 0
    return np.where(is_zero, drawn, before / np.where(is_zero, 1, sizes))
