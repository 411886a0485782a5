"""Blocks of numbers as whole multiples of a step each: what int8 and qsgd have in common."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.core.errors import CodecError

WIDTHS = (2, 4, 8)


@cache
def lattice(size: int) -> NDArray[np.uint32]:
    """A number for each place of a block, unrelated to its neighbours'; draws begin with it."""
    mixed = np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B9)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    mixed ^= mixed >> np.uint32(15)
    mixed.flags.writeable = False
    return mixed


def nothing(form: Form) -> Array:
    """What kernels take for no residual."""
    return np.empty(0, form.dtype)


def step_max(dtype: "np.dtype[Any]", levels: int) -> float:
    """The longest step whose multiples are finite."""
    return float(np.finfo(dtype).max) / levels * (1.0 - 2.0**-22 if levels > 1 else 1.0)


def check_steps(steps: Array, levels: int) -> None:
    """Refuse steps that are negative, not finite, or so long that what is decoded is not finite."""
    longest = step_max(steps.dtype, levels)
    wrong = np.flatnonzero(~((steps >= 0) & (steps <= longest)))
    if wrong.size:
        raise CodecError(
            f"the scale of block {wrong[0]} is {steps[wrong[0]]}, but it is from 0 to {longest:.3g}: the payload is "
            "broken, or of another codec."
        )


@dataclass(frozen=True)
class Rounding(Codec):
    """Each block: a step, as long as its numbers are; then a code of 2, 4 or 8 bits for each number, its multiple
    of the step plus `levels`. Rounds up or down by chance, so that the mean is right: no residual is needed.
    """

    @property
    def wants_feedback(self) -> bool:
        return False

    @property
    def num_levels(self) -> int:
        raise NotImplementedError

    @property
    def block_size(self) -> int:
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Bits of a code."""
        return next(width for width in WIDTHS if 2 * self.num_levels < 1 << width)

    def num_blocks(self, form: Form) -> int:
        return -(-form.num_elements // self.block_size)

    def size(self, form: Form, clock: int = 0) -> int:
        return self.num_blocks(form) * form.itemsize + -(-form.num_elements * self.width // 8)

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        from weft.codecs.kernels import rounding

        payload = np.empty(self.size(form), np.uint8)
        steps, packed = self._parts(payload, form)
        block = np.empty(self.block_size, form.dtype)
        num_not_finite = rounding.encode(
            values,
            nothing(form) if residual is None else residual,
            block,
            np.empty(self.block_size, np.uint8),
            lattice(self.block_size),
            steps,
            packed,
            self.num_levels,
            self.width,
            step_max(form.dtype, self.num_levels),
            np.uint64(turn.draw & (1 << 64) - 1),
        )
        return Encoded(payload, num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        check_steps(self._parts(payload, form)[0], self.num_levels)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, scale, form, adds=True)

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, 1.0, form, adds=False)

    def _put(self, payload: Payload, into: Array, scale: float, form: Form, *, adds: bool) -> None:
        from weft.codecs.kernels import rounding

        codes = np.empty(self.block_size, np.uint8)
        rounding.add(*self._parts(payload, form), into, codes, self.num_levels, self.width, scale, adds)

    def _parts(self, payload: Payload, form: Form) -> tuple[Array, Payload]:
        end = self.num_blocks(form) * form.itemsize
        return payload[:end].view(form.dtype), payload[end:]
