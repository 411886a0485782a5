"""Numbers of fewer bits: what fp16, bf16 and fp8 have in common."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.rounding import nothing
from weft.core.errors import CodecError

HALF, BRAIN, EIGHT = 0, 1, 2
"""What numbers are cast to: float16, bfloat16, and e4m3 of 8 bits."""

EXPONENTS_MAX = {4: 126, 8: 1022}
LARGEST = {HALF: 65504.0, BRAIN: 255 * 2.0**120, EIGHT: 448.0}
DIGITS_ABOVE = {HALF: 16, BRAIN: 128, EIGHT: 9}
"""The power of two that all numbers of a format are below."""


def exponents(kind: int, itemsize: int) -> tuple[int, int]:
    """Of the powers that blocks may be multiplied by: whatever is cast then is finite when it is divided again."""
    highest = EXPONENTS_MAX[itemsize]
    return DIGITS_ABOVE[kind] - highest - 2, highest


@cache
def eights() -> Array:
    """The numbers of e4m3: 4 bits of exponent, 3 of mantissa, no infinity; what is no number counts as 0."""
    codes = np.arange(256)
    exponents, mantissas = codes >> 3 & 15, codes & 7
    sizes = np.where(exponents > 0, (8 + mantissas) * 2.0 ** (exponents - 10), mantissas * 2.0**-9)
    table: Array = np.where(codes & 127 == 127, 0.0, np.where(codes & 128, -sizes, sizes)).astype(np.float32)
    table.flags.writeable = False
    return table


@dataclass(frozen=True)
class Cast(Codec):
    """First a power of two for each block, as large as its numbers are, by which they were multiplied so that the
    largest fits; then the numbers, rounded to nearest even. Numbers of 64 bits are rounded to 32 on the way.
    """

    kind: ClassVar[int]
    block: ClassVar[int] = 4096
    code_size: ClassVar[int] = 2
    has_powers: ClassVar[bool] = True

    def size(self, form: Form, clock: int = 0) -> int:
        return self._num_powers(form) * form.itemsize + form.num_elements * self.code_size

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        from weft.codecs.kernels import casts

        payload = np.empty(self.size(form), np.uint8)
        powers, doubles, octets = self._parts(payload, form)
        block, said = np.empty((2, self.block), form.dtype)
        num_not_finite = casts.encode(
            values,
            nothing(form) if residual is None else residual,
            block,
            said,
            powers,
            doubles,
            octets,
            eights(),
            self.kind,
            *exponents(self.kind, form.itemsize),
            LARGEST[self.kind],
        )
        return Encoded(payload, num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        powers, doubles, octets = self._parts(payload, form)
        lowest, highest = (2.0**exponent for exponent in exponents(self.kind, form.itemsize))
        wrong = np.flatnonzero(~((powers >= lowest) & (powers <= highest)))
        if wrong.size:
            raise CodecError(
                f"the scale of block {wrong[0]} is {powers[wrong[0]]}, but it is a power of two from {lowest:.3g} "
                f"to {highest:.3g}: the payload is broken, or of another codec."
            )
        if not self._are_numbers(doubles, octets):
            raise CodecError("the payload has numbers that are not finite: it is broken, or of another codec.")

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, scale, form, adds=True)

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, 1.0, form, adds=False)

    def _put(self, payload: Payload, into: Array, scale: float, form: Form, *, adds: bool) -> None:
        from weft.codecs.kernels import casts

        casts.add(*self._parts(payload, form), eights(), into, self.block, self.kind, scale, adds)

    def _are_numbers(self, doubles: Any, octets: Any) -> bool:
        raise NotImplementedError

    def _num_powers(self, form: Form) -> int:
        return -(-form.num_elements // self.block) if self.has_powers else 0

    def _parts(self, payload: Payload, form: Form) -> tuple[Array, Array, Array]:
        """The powers, then codes of 16 bits or of 8."""
        end = self._num_powers(form) * form.itemsize
        codes = payload[end:]
        if self.code_size == 2:
            return payload[:end].view(form.dtype), codes.view(np.uint16), codes[:0]
        return payload[:end].view(form.dtype), codes[:0].view(np.uint16), codes
