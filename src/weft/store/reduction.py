"""The arithmetic of Reduce on arrays, in one order for every driver, so that all get the same bits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.actions import MAX, MEAN

Array = NDArray[Any]

HALF_BYTES = 2
STRETCH = 1 << 15
"""Elements that are summed over all contributions before the next ones, so that their sums stay in the cache."""


def reduce_arrays(payloads: Sequence[Array], weights: Sequence[float], op: str) -> Array:
    """Σ n_i x_i / Σ n_i (mean), Σ n_i x_i (sum) or the element-wise maximum, in a new array."""
    total = np.empty_like(payloads[0])
    reduce_into(total, payloads, weights, op)
    return total


def reduce_into(total: Array, payloads: Sequence[Array], weights: Sequence[float], op: str) -> None:
    """Reduce `payloads` into `total`, in the order given; contributions of weight 0 are left out, even if they are NaN.

    A mean of one contribution is that contribution, bit for bit. Equal weights are not multiplied in, only to be
    divided out again. Half precision is summed in single precision.
    """
    if not all(weights):
        payloads = [payload for payload, weight in zip(payloads, weights, strict=True) if weight]
        weights = [weight for weight in weights if weight]
    if op == MAX or (op == MEAN and len(payloads) == 1):
        np.copyto(total, payloads[0])
        for payload in payloads[1:]:
            np.maximum(total, payload, out=total)
        return
    shares = _shares(weights, op)
    if total.itemsize == HALF_BYTES:
        single = np.empty(total.shape, np.float32)
        _add_up(single, [payload.astype(np.float32) for payload in payloads], *shares)
        total[:] = single
        return
    if len(total) <= STRETCH:
        _add_up(total, payloads, *shares)
        return
    for start in range(0, len(total), STRETCH):
        stretch = slice(start, start + STRETCH)
        _add_up(total[stretch], [payload[stretch] for payload in payloads], *shares)


def _shares(weights: Sequence[float], op: str) -> tuple[Sequence[float] | None, float]:
    """The factor of each contribution (None: all are equal, and left out), and the divisor of their sum."""
    total = sum(weights) if op == MEAN else 1.0
    if (op == MEAN or weights[0] == 1.0) and weights.count(weights[0]) == len(weights):
        return None, total / weights[0]
    return weights, total


def _add_up(total: Array, payloads: Sequence[Array], shares: Sequence[float] | None, divisor: float) -> None:
    if shares is None:
        np.add(payloads[0], payloads[1], total) if len(payloads) > 1 else np.copyto(total, payloads[0])
        for payload in payloads[2:]:
            np.add(total, payload, total)
    else:
        number = total.dtype.type
        np.multiply(payloads[0], number(shares[0]), out=total)
        for payload, share in zip(payloads[1:], shares[1:], strict=True):
            np.add(total, payload * number(share), out=total)
    if divisor != 1.0:
        np.divide(total, total.dtype.type(divisor), out=total)
