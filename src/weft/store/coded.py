"""A tensor in coded form: its bytes, and the arithmetic that needs no array of its size.

The flags of a bucket, which say what tensors have a gradient, are few and must arrive as they are: they go before the
codec's own bytes.
"""

from collections.abc import Iterable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Codec, Form, Payload, Turn
from weft.core.errors import CodecError
from weft.core.names import Bucket, Part
from weft.observe.records.status import CodingStatus

Array = NDArray[Any]
Places = tuple[int, ...]

ALIGN_BYTES = 8


class Shape(NamedTuple):
    """What a coded tensor was: its form for the codec, and where its flags are."""

    form: Form
    flags: Places

    @property
    def flag_bytes(self) -> int:
        """The bytes of the flags, filled up so that what follows is aligned."""
        return -(-len(self.flags) * self.form.itemsize // ALIGN_BYTES) * ALIGN_BYTES

    def size(self, codec: Codec, clock: int = 0) -> int:
        """The bytes that it becomes; the most if the codec's size varies."""
        return self.flag_bytes + codec.size(self.form, clock)


def shape_of(bucket: Bucket, part: Part | None) -> Shape:
    """The shape of a bucket, or of a part of it, which is a vector."""
    if part is None:
        return Shape(Form(bucket.num_elements, bucket.itemsize, bucket.tensors), bucket.flags)
    start, stop = part.bounds(bucket.num_elements)
    return Shape(
        Form(stop - start, bucket.itemsize), tuple(place - start for place in bucket.flags if start <= place < stop)
    )


def coded_bytes_max(codecs: Iterable[Codec], buckets: Iterable[Bucket]) -> tuple[int, ...]:
    """The most that each bucket can have in any of these codes, at any step; empty if there are none."""
    used = list(codecs)
    shapes = [shape_of(bucket, None) for bucket in buckets]
    return tuple(max(shape.size(codec, 0) for codec in used) for shape in shapes) if used else ()


class Meter:
    """What coding has cost a node so far, and saved."""

    def __init__(self) -> None:
        self.bytes_before = 0
        self.bytes_after = 0
        self.encode_s = 0.0
        self.decode_s = 0.0
        self.num_not_finite = 0
        """Numbers that were not finite, and therefore not sent."""


def told_by(meter: Meter, residual_norm: float) -> CodingStatus:
    """What a meter says."""
    return CodingStatus(
        meter.bytes_before, meter.bytes_after, meter.encode_s, meter.decode_s, residual_norm, meter.num_not_finite
    )


class Coded:
    """A value, never changed: what is made of it is another."""

    __slots__ = ("codec", "flags", "given", "kind", "payload", "shape")

    def __init__(
        self, kind: str, codec: Codec, shape: Shape, flags: Array, payload: Payload, given: Payload | None = None
    ) -> None:
        self.kind = kind
        self.codec = codec
        self.shape = shape
        self.flags = flags
        self.payload = payload
        self.given = given

    @property
    def nbytes(self) -> int:
        return self.shape.flag_bytes + int(self.payload.nbytes)

    def raw(self) -> Payload:
        """What travels."""
        if not len(self.flags):
            return self.payload
        raw = np.zeros(self.nbytes, np.uint8)
        raw[: self.flags.nbytes] = self.flags.view(np.uint8)
        raw[self.shape.flag_bytes :] = self.payload
        return raw

    def copy(self) -> "Coded":
        """The same, whose bytes are its own."""
        return Coded(self.kind, self.codec, self.shape, self.flags.copy(), self.payload.copy(), self.given)

    def with_given(self, given: Payload | None) -> "Coded":
        return Coded(self.kind, self.codec, self.shape, self.flags, self.payload, given)

    def add_to(self, into: Array, keep: float, scale: float, meter: Meter) -> None:
        """into = keep * into + scale * what this says."""
        began, places = perf_counter(), list(self.shape.flags)
        if len(into) != self.shape.form.num_elements:
            raise CodecError(
                f"a coded tensor of {self.shape.form.num_elements} numbers was added to one of {len(into)}: "
                "somebody sent another part than was asked for."
            )
        flags = scale * self.flags + (keep * into[places] if keep else 0.0)
        if keep == 0.0 and scale == 1.0:
            self.codec.decode(self.payload, into, self.shape.form, self.given)
        else:
            if keep == 0.0:
                into[...] = 0
            elif keep != 1.0:
                into *= into.dtype.type(keep)
            self.codec.add(self.payload, into, scale, self.shape.form, self.given)
        if places:
            into[places] = flags
        meter.decode_s += perf_counter() - began

    def decoded(self, meter: Meter) -> Array:
        """The tensor that this stands for."""
        into = np.empty(self.shape.form.num_elements, f"f{self.shape.form.itemsize}")
        self.add_to(into, 0.0, 1.0, meter)
        return into

    def can_merge(self, other: "Coded") -> bool:
        """Both are of one codec, and can be summed without being decoded."""
        return self.codec == other.codec and self.codec.can_merge(self.payload, other.payload)

    def merged(self, keep: float, other: "Coded | None", scale: float) -> "Coded":
        """keep * this + scale * another of its kind, both without being decoded."""
        new = self.copy()
        added = self if other is None else other
        self.codec.merge(new.payload, keep, added.payload, 0.0 if other is None else scale, self.shape.form)
        new.flags = (keep * self.flags + (0.0 if other is None else scale) * added.flags).astype(self.flags.dtype)
        return new


def encode(
    kind: str,
    codec: Codec,
    shape: Shape,
    source: Array,
    residual: Array | None,
    turn: Turn,
    given: Array | None,
    meter: Meter,
) -> Coded:
    """What the codec says of source + residual, and the source's flags. With a residual, numbers that are not finite
    become 0 in the source: whoever takes back what was said must not find them.
    """
    began, places = perf_counter(), list(shape.flags)
    flags = source[places]
    source[places] = 0
    if residual is not None:
        residual[places] = 0
    encoded = codec.encode(source, residual, shape.form, turn, given)
    if encoded.num_not_finite and residual is not None:
        np.nan_to_num(source, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    source[places] = flags
    coded = Coded(kind, codec, shape, flags, encoded.payload)
    meter.bytes_before += 0 if codec.leads_on else source.nbytes
    meter.bytes_after += coded.nbytes
    meter.encode_s += perf_counter() - began
    meter.num_not_finite += encoded.num_not_finite
    return coded


def received(kind: str, codec: Codec, shape: Shape, raw: Payload, clock: int) -> Coded:
    """What came, once it has been checked; raises CodecError and allocates nothing otherwise."""
    if len(raw) < shape.flag_bytes:
        raise CodecError(f"a payload of '{kind}' has {len(raw)} bytes, fewer than its {len(shape.flags)} flags.")
    flags = raw[: len(shape.flags) * shape.form.itemsize].view(f"f{shape.form.itemsize}")
    if not np.isfinite(flags).all():
        raise CodecError(f"a payload of '{kind}' has a flag that is not finite.")
    payload = raw[shape.flag_bytes :]
    codec.check(payload, shape.form, clock)
    return Coded(kind, codec, shape, flags, payload)
