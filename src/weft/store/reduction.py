"""The arithmetic of Reduce on arrays, in one order for every driver, so that all get the same bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.actions import MAX, MEAN

Array = NDArray[Any]

STRETCH = 1 << 15
"""Elements that are finished before the next ones are begun: their sums stay in the cache."""


def reduce_arrays(payloads: Sequence[Array], weights: Sequence[float], op: str) -> Array:
    """Σ n_i x_i / Σ n_i (mean), Σ n_i x_i (sum) or the element-wise maximum, in a new array."""
    total = np.empty_like(payloads[0])
    reduce_into(total, payloads, weights, op)
    return total


def reduce_into(total: Array, payloads: Sequence[Array], weights: Sequence[float], op: str) -> None:
    """The same in `total`, in the order given; contributions of weight 0 are left out.

    A mean of one contribution is that contribution, bit for bit, and equal weights are not multiplied in
    only to be divided out again. Half precision is summed in single.
    """
    present = [payload for payload, weight in zip(payloads, weights, strict=True) if weight]
    shares = _shares([weight for weight in weights if weight], op)
    if op == MAX or (op == MEAN and len(present) == 1):
        np.copyto(total, present[0])
        for payload in present[1:]:
            np.maximum(total, payload, out=total)
        return
    if total.dtype == np.float16:
        single = np.empty(total.shape, np.float32)
        _add_up(single, [payload.astype(np.float32) for payload in present], *shares)
        total[:] = single
        return
    for start in range(0, len(total), STRETCH):
        stretch = slice(start, start + STRETCH)
        _add_up(total[stretch], [payload[stretch] for payload in present], *shares)


def _shares(weights: Sequence[float], op: str) -> tuple[list[float], float]:
    """What each contribution is multiplied by, and what their sum is then divided by."""
    total = sum(weights) if op == MEAN else 1.0
    if all(weight == weights[0] for weight in weights):
        return [1.0] * len(weights), total / weights[0]
    return list(weights), total


def _add_up(total: Array, payloads: Sequence[Array], shares: Sequence[float], divisor: float) -> None:
    if len(payloads) > 1 and all(share == 1.0 for share in shares):
        np.add(payloads[0], payloads[1], out=total)
        rest = range(2, len(payloads))
    else:
        np.multiply(payloads[0], total.dtype.type(shares[0]), out=total)
        rest = range(1, len(payloads))
    for i in rest:
        total += payloads[i] if shares[i] == 1.0 else payloads[i] * total.dtype.type(shares[i])
    if divisor != 1.0:
        total /= total.dtype.type(divisor)
