"""The maths of L-BFGS, the one rule that looks at the whole model at once: its arrays together are one vector."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.rules import LBFGS

Array = NDArray[Any]
Vector = list[Array]
"""One array for each bucket."""

GRADIENT_MIN = 1e-7
"""No element of a gradient is larger: nothing is left to do."""
DESCENT_MIN = 1e-9
"""A direction that leads down less steeply is not taken."""
CURVATURE_MIN = 1e-10
"""A pair of step and change with a smaller product says nothing reliable."""


class Curvature:
    """What the last steps taught: pairs of a step and of the gradient's change along it, oldest first."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Vector, Vector, float]] = []
        self._gradient: Vector | None = None
        self._step: Vector | None = None
        """What the last update added to the parameters; None if it added nothing."""

    def update(self, rule: LBFGS, params: Sequence[Array], gradients: Sequence[Array], scale: float) -> None:
        """One step on `params`, in place, as long as its direction says; the first is shortened to 1 / Σ|g|.

        The gradients are kept and must not be written to any more.
        """
        g = [gradient.astype(np.promote_types(gradient.dtype, np.float32), copy=False) for gradient in gradients]
        if max(float(np.max(np.abs(array), initial=0.0)) for array in g) <= GRADIENT_MIN:
            return
        length = rule.lr * scale
        if self._gradient is None:
            length *= min(1.0, 1.0 / sum(float(np.sum(np.abs(array), dtype=np.float64)) for array in g))
        else:
            self._learn(g, rule.history)
        direction = self._direction(g)
        self._gradient, self._step = g, None
        if _dot(g, direction) > -DESCENT_MIN:
            return
        self._step = [length * array for array in direction]
        for array, step in zip(params, self._step, strict=True):
            array += step.astype(array.dtype, copy=False)

    def _learn(self, g: Vector, history: int) -> None:
        """Keep how the gradient has changed along the last step, if it has grown along it."""
        assert self._gradient is not None
        if self._step is None:
            return
        change = [new - old for new, old in zip(g, self._gradient, strict=True)]
        product = _dot(change, self._step)
        if product > CURVATURE_MIN:
            self._pairs = [*self._pairs, (self._step, change, product)][-history:]

    def _direction(self, g: Vector) -> Vector:
        """The gradient, turned and stretched by the inverse of the curvature; downwards."""
        direction = [-array for array in g]
        if not self._pairs:
            return direction
        shares = []
        for step, change, product in reversed(self._pairs):
            share = _dot(step, direction) / product
            _add(direction, -share, change)
            shares.append(share)
        _, change, product = self._pairs[-1]
        stretch = product / _dot(change, change)
        for array in direction:
            array *= stretch
        for (step, change, product), share in zip(self._pairs, reversed(shares), strict=True):
            _add(direction, share - _dot(change, direction) / product, step)
        return direction


def _dot(a: Vector, b: Vector) -> float:
    return sum(float(np.dot(x, y)) for x, y in zip(a, b, strict=True))


def _add(into: Vector, scale: float, vector: Vector) -> None:
    for array, added in zip(into, vector, strict=True):
        array += scale * added
