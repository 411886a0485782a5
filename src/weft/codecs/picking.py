"""Which numbers of an array are the largest, exactly: ties go to the first.

A sample says how large the smallest of them is about; one pass over memory gathers what there is to say and notes all
candidates; a selection among those decides. If the sample was misleading, everything is compared.
"""

from typing import NamedTuple

import numpy as np

from weft.codecs.codec import Array, Form
from weft.codecs.rounding import nothing
from weft.codecs.sparse import Picked, Places

BLOCK = 2048
NUM_SAMPLES = 1 << 15
SAMPLED_FROM = 1 << 18
"""Smaller arrays are compared as a whole."""


class PickInput(NamedTuple):
    """What there is to say: the residual if there is one, else the values; and where it is not finite."""

    total: Array
    bad: Places


class Velocity(NamedTuple):
    """By what the velocity is multiplied before values times `factor` are added to it, and the velocity."""

    momentum: float = 0.0
    factor: float = 1.0
    velocity: Array | None = None


PLAIN = Velocity()


def gather(
    values: Array, residual: Array | None, form: Form, largest: int = 0, by: Velocity = PLAIN
) -> tuple[PickInput, Places]:
    """Add the values to the residual, except where that is not finite; and where the `largest` many are."""
    from weft.codecs.kernels import picking

    left = nothing(form) if residual is None else residual
    velocity = nothing(form) if by.velocity is None else by.velocity
    inputs = (values, left, velocity, by.momentum, by.factor)
    block, moved = np.empty((2, BLOCK), form.dtype)
    integers = np.dtype(f"i{form.itemsize}")
    is_sampled = largest > 0 and form.num_elements >= SAMPLED_FROM
    least, room = np.iinfo(integers).max, 0
    if is_sampled:
        sizes = np.empty(NUM_SAMPLES, integers)
        picking.sample(*inputs, sizes)
        least, room = bracket(sizes, largest / form.num_elements), 2 * largest + NUM_SAMPLES
    places, sizes = np.empty(room, np.int64), np.empty(room, integers)
    number, bad = picking.scan(*inputs, least, block, moved, np.empty(BLOCK, integers), places, sizes)
    gathered = PickInput(values if residual is None else residual, bad)
    if largest == 0:
        return gathered, places
    if largest <= number <= room:
        return gathered, among(places[:number], sizes[:number], largest)
    return gathered, among(np.arange(form.num_elements), sizes_of(gathered), largest)


def bracket(sizes: Array, fraction: float) -> int:
    """A size that surely more than this fraction has, but few more: four standard deviations are to spare."""
    expected = fraction * len(sizes)
    rank = min(len(sizes) - 1, int(expected + 4.0 * np.sqrt(expected) + 4.0))
    return int(np.partition(sizes, len(sizes) - 1 - rank)[len(sizes) - 1 - rank])


def among(places: Places, sizes: Array, number: int) -> Places:
    """The places of the largest of these."""
    from weft.codecs.kernels import picking

    least = np.partition(sizes, len(sizes) - number)[len(sizes) - number]
    chosen = np.empty(number, np.int64)
    picking.choose(places, sizes, least, number - int(np.count_nonzero(sizes > least)), chosen)
    return chosen


def sizes_of(gathered: PickInput) -> Array:
    """Absolute values as integers, which order in the same way; what is not finite comes last."""
    total = gathered.total
    sizes: Array = np.abs(total).view(f"i{total.itemsize}")
    sizes[gathered.bad] = -1
    return sizes


def take_of_blocks(gathered: PickInput, residual: Array | None, form: Form, number: int, block: int) -> Picked:
    """Move the `number` largest of each block, or all of a last one that is smaller, out of what there is to say."""
    from weft.codecs.kernels import blocks

    whole, rest = divmod(form.num_elements, block)
    chosen = np.empty(whole * number + min(rest, number), np.int64)
    numbers = np.empty(len(chosen), form.dtype)
    sizes, found = np.empty((2, block + blocks.WORD), f"i{form.itemsize}")
    scratch = sizes, found, np.empty(block + blocks.WORD, np.int64)
    left = nothing(form) if residual is None else residual
    blocks.take_of_blocks(gathered.total, left, gathered.bad, number, block, *scratch, chosen, numbers)
    return Picked(chosen, numbers, len(gathered.bad))
