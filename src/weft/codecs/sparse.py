"""A few numbers among many, and where they are: what sparsifiers have in common, and how it travels.

The array is cut in blocks of 65,536 numbers. A payload is: for each block a count (uint32); the offsets within their
block of all that are kept (uint16), strictly rising in each block; zeros up to a multiple of 8 bytes; then the
numbers themselves, as they were. That is 6 bytes for each float32 kept. All is little-endian.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Array, Codec, Encoded, Form, Payload, Turn
from weft.core.errors import CodecError

Places = NDArray[np.int64]

SPAN = 65536
WORD = 8


class Picked(NamedTuple):
    """Which numbers are kept, in rising order; they are 0 in the residual from now on."""

    places: Places
    numbers: Array
    num_not_finite: int


def kept(fraction: float, form: Form) -> int:
    """How many numbers a fraction is: at least one, if there are any."""
    return min(form.num_elements, max(1, ceil(fraction * form.num_elements)))


def up_to_word(size: int) -> int:
    """The next multiple of 8 bytes."""
    return -(-size // WORD) * WORD


def take(total: Array, residual: Array | None, places: Places, bad: Places) -> Picked:
    """Move numbers out of what there is to say; where a value was not finite, nothing is said."""
    numbers, said = total[places], places
    if bad.size:
        is_bad = np.isin(places, bad)
        numbers[is_bad] = 0
        said = places[~is_bad]
    if residual is not None:
        residual[said] = 0
    return Picked(places, numbers, len(bad))


@dataclass(frozen=True)
class Sparsifier(Codec):
    """Keeps some numbers as they are and leaves the others for later: nothing is changed, bit by bit.

    `pick` and `most` are its own; one that needs no offsets says so in the methods about places.
    """

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        """What of values + residual is said now. The residual is what is left."""
        raise NotImplementedError

    def most(self, form: Form, clock: int) -> int:
        """How many numbers are kept, or the most that can be if that varies."""
        raise NotImplementedError

    def places_size(self, form: Form, number: int) -> int:
        """Bytes that say where this many numbers are."""
        return up_to_word(4 * -(-form.num_elements // SPAN) + 2 * number)

    def write_places(self, picked: Picked, payload: Payload, form: Form, turn: Turn) -> None:
        """Say where they are, at the start of a payload."""
        from weft.codecs.kernels import sparse

        payload[:WORD] = 0
        payload[self.places_size(form, len(picked.places)) - WORD :][:WORD] = 0
        sparse.write(picked.places, *self.layout(payload, form, len(picked.places)))

    def read_number(self, payload: Payload, form: Form, clock: int | None = None) -> int:
        """How many numbers a payload counts; with a clock, that must be possible."""
        num_blocks = -(-form.num_elements // SPAN)
        if len(payload) < 4 * num_blocks:
            raise CodecError(f"a payload has {len(payload)} bytes, but {4 * num_blocks} only for its counts.")
        number = int(payload[: 4 * num_blocks].view(np.uint32).sum(dtype=np.int64))
        if clock is not None:
            most = self.most(form, clock)
            if number > most or (number < most and not self.varies):
                raise CodecError(f"a payload counts {number} numbers, but of {form.num_elements} {most} are kept.")
        return number

    def check_places(self, payload: Payload, form: Form, number: int) -> None:
        """Raise CodecError unless all places are within the array, and rise. The payload is long enough."""
        from weft.codecs.kernels import sparse

        if not sparse.are_right(*self.layout(payload, form, number), form.num_elements):
            raise CodecError(
                f"the offsets of a payload do not rise, or leave the {form.num_elements} numbers: it is broken, "
                "or of another codec."
            )

    def read_places(self, payload: Payload, form: Form, number: int) -> Places:
        """Where they are, in rising order."""
        from weft.codecs.kernels import sparse

        places = np.empty(number, np.int64)
        sparse.places(*self.layout(payload, form, number), places)
        return places

    def layout(self, payload: Payload, form: Form, number: int) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """The counts and the offsets."""
        end = 4 * -(-form.num_elements // SPAN)
        return payload[:end].view(np.uint32), payload[end : end + 2 * number].view(np.uint16)

    def size(self, form: Form, clock: int = 0) -> int:
        return self.sized(form, self.most(form, clock))

    def sized(self, form: Form, number: int) -> int:
        """Bytes of a payload of this many numbers."""
        return self.places_size(form, number) + number * form.itemsize

    def encode(
        self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None = None
    ) -> Encoded:
        picked = self.pick(values, residual, form, turn, given)
        number = len(picked.places)
        payload = np.empty(self.sized(form, number), np.uint8)
        self.write_places(picked, payload, form, turn)
        self.numbers(payload, form, number)[:] = picked.numbers
        return Encoded(payload, picked.num_not_finite)

    def numbers(self, payload: Payload, form: Form, number: int) -> Array:
        """What is kept, as it was."""
        return payload[self.places_size(form, number) :].view(form.dtype)

    def check(self, payload: Payload, form: Form, clock: int = 0) -> None:
        super().check(payload, form, clock)
        number = self.read_number(payload, form, clock)
        if len(payload) != self.sized(form, number):
            raise CodecError(
                f"a payload has {len(payload)} bytes, but {number} of {form.num_elements} numbers become "
                f"{self.sized(form, number)}."
            )
        self.check_places(payload, form, number)
        check_numbers(self.numbers(payload, form, number))

    def add(self, payload: Payload, into: Array, scale: float, form: Form, given: Array | None = None) -> None:
        from weft.codecs.kernels import sparse

        number = self.read_number(payload, form)
        sparse.add(*self.layout(payload, form, number), self.numbers(payload, form, number), into, scale)


def check_numbers(numbers: Array, factor: float = 1.0) -> None:
    """Refuse numbers that are not finite, or not once they are multiplied."""
    if not (np.abs(numbers) <= float(np.finfo(numbers.dtype).max) / factor).all():
        raise CodecError("the payload has numbers that are not finite: it is broken, or of another codec.")
