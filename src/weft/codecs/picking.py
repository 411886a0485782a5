"""Which numbers of an array are the largest, exactly: ties go to the first."""

import numpy as np

from weft.codecs.codec import Array, Form
from weft.codecs.sparse import Places


def sum_up(values: Array, residual: Array | None, form: Form) -> tuple[Array, Places]:
    """values + residual, written to the residual if there is one; and where that is not finite: there it stays."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = values + residual if residual is not None else values.copy()
    bad = np.flatnonzero(~np.isfinite(total))
    if residual is None:
        total[bad] = 0
        return total, bad
    total[bad] = residual[bad]
    residual[:] = total
    return residual, bad


def sizes_of(total: Array, bad: Places) -> Array:
    """Absolute values; what is not finite comes last."""
    sizes: Array = np.abs(total)
    sizes[bad] = -1
    return sizes


def largest(total: Array, number: int, bad: Places) -> Places:
    """The places of the `number` largest, in rising order."""
    sizes = sizes_of(total, bad)
    least = np.partition(sizes, len(sizes) - number)[len(sizes) - number]
    above = np.flatnonzero(sizes > least)
    ties = np.flatnonzero(sizes == least)[: number - len(above)]
    return np.sort(np.concatenate([above, ties]))


def largest_of_blocks(total: Array, number: int, block: int, bad: Places) -> Places:
    """The places of the `number` largest of each block, or all of a last one that is smaller."""
    sizes = sizes_of(total, bad)
    places = [
        start + np.sort(np.argsort(-sizes[start : start + block], kind="stable")[:number])
        for start in range(0, len(sizes), block)
    ]
    return np.concatenate(places)


def at_least(total: Array, size: float, bad: Places) -> Places:
    """The places of those of this size or larger."""
    return np.flatnonzero(sizes_of(total, bad) >= size)
