"""TernGrad: every gradient becomes -1, 0 or 1 times the scale of its tensor."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.codecs.ranges import check_above_zero, check_block
from weft.codecs.rounding import check_steps, lattice, nothing
from weft.codecs.segments import bounds
from weft.core.errors import CodecError

CHUNK = 2048
EVERY_BIT = (1 << 64) - 1


@dataclass(frozen=True)
class TernGrad(Codec):
    """Ternary gradients (Wen et al. 2017): -s, 0 or s by chance, so that the mean is right, in 2 bits each.

    The scale s is the largest of a tensor (or of a block) once it was clipped at `clip` times its root mean square.
    Workers that agree on s first (`peaks`, whose payload is then given) send sums of small whole numbers. A payload
    is the scales, each as large as its numbers are, and the codes. What lies between tensors has a scale of its own.
    """

    clip: float = 2.5
    block: int | None = None

    def __post_init__(self) -> None:
        check_above_zero("terngrad", "clip", self.clip, usual=2.5)
        if self.block is not None:
            check_block("terngrad", self.block, usual=512)

    @property
    def wants_feedback(self) -> bool:
        return False

    def stages(self) -> tuple[Codec, ...]:
        return self.peaks, self

    @property
    def peaks(self) -> "Peaks":
        """By what workers agree on scales."""
        return Peaks(self.clip, self.block)

    def size(self, form: Form, clock: int = 0) -> int:
        return self.peaks.size(form) + -(-form.num_elements // 4)

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        from weft.codecs.kernels import ternary

        payload = np.empty(self.size(form), np.uint8)
        scales, packed = self._parts(payload, form)
        limits, own = self.peaks.measure(values, residual, form)
        scales[:] = own if given is None else given.view(form.dtype)
        block = np.empty(CHUNK, form.dtype)
        num_not_finite = ternary.encode(
            values,
            nothing(form) if residual is None else residual,
            bounds(form, self.block),
            block,
            np.empty_like(block),
            np.empty(CHUNK, np.uint8),
            lattice(CHUNK),
            limits,
            scales,
            packed,
            np.uint64(turn.draw & EVERY_BIT),
        )
        return Encoded(payload, num_not_finite)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        check_steps(self._parts(payload, form)[0], 1)

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, scale, form, adds=True)

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        self._put(payload, into, 1.0, form, adds=False)

    def _put(self, payload: Payload, into: Array, scale: float, form: Form, *, adds: bool) -> None:
        from weft.codecs.kernels import ternary

        codes = np.empty(CHUNK, np.uint8)
        ternary.add(*self._parts(payload, form), bounds(form, self.block), into, codes, scale, adds)

    def _parts(self, payload: Payload, form: Form) -> tuple[Array, Payload]:
        end = self.peaks.size(form)
        return payload[:end].view(form.dtype), payload[end:]


@dataclass(frozen=True)
class Peaks(Codec):
    """The largest of each tensor once it was clipped. Merging takes the larger: that is the scale that all agree on.

    A share of 0 does not count.

    It says nothing else of the values, and leaves the residual alone.
    """

    clip: float = 2.5
    block: int | None = None
    adds_up: ClassVar[bool] = True
    leads_on: ClassVar[bool] = True

    @property
    def wants_feedback(self) -> bool:
        return False

    def prepare(self, itemsize: int) -> None:
        form = Form(1, itemsize)
        self.measure(np.ones(1, form.dtype), None, form)

    def size(self, form: Form, clock: int = 0) -> int:
        return form.itemsize * (len(bounds(form, self.block)) - 1)

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        return Encoded(self.measure(values, residual, form)[1].view(np.uint8))

    def measure(self, values: Array, residual: Array | None, form: Form) -> tuple[Array, Array]:
        """Where each tensor is clipped, and its largest after that."""
        from weft.codecs.kernels import ternary

        cut = bounds(form, self.block)
        limits, peaks = np.empty((2, len(cut) - 1), form.dtype)
        block = np.empty(CHUNK, form.dtype)
        total = nothing(form) if residual is None else residual
        ternary.measure(values, total, cut, block, limits, peaks, self.clip)
        return limits, peaks

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        check_steps(payload.view(form.dtype), 1)

    def decode(self, payload: Payload, into: Array, form: Form, given: Array | None = None) -> None:
        raise CodecError("scales alone say no values: give them to 'terngrad' when it encodes.")

    def merge(self, into: Payload, keep: float, payload: Payload, scale: float, form: Form) -> None:
        peaks = into.view(form.dtype)
        peaks *= form.dtype.type(keep != 0.0)
        np.maximum(peaks, payload.view(form.dtype) * form.dtype.type(scale != 0.0), out=peaks)
