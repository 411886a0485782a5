"""The loss of a step that is shown: what the script computed, not what it gave to backward.

| between two steps | shown |
|---|---|
| one backward | the tensor that it was called on |
| n backwards of `loss / n`, or `loss * (1 / n)` | their sum, which is the mean of the losses |
| fewer backwards of `loss / n` after such a step, as at the end of an epoch | n times their mean |
| n other backwards | their mean |

A `torch.amp.GradScaler`'s scale is undone. Another scale of the script's own cannot be told from a loss.
"""

from math import isclose
from typing import Any, NamedTuple

import torch
from torch.amp import GradScaler

UNSCALED = "_weft_unscaled"
"""The attribute of a scaled tensor that has the one before scaling."""
FACTORS = {"DivBackward0": lambda other: 1 / other, "MulBackward0": lambda other: other}
"""What the last operation multiplies by, by its name in the graph."""

_plain_scale = GradScaler.scale


def _watched_scale(scaler: GradScaler, outputs: Any) -> Any:
    """GradScaler.scale, which leaves a note on what it returns."""
    scaled = _plain_scale(scaler, outputs)
    if isinstance(scaled, torch.Tensor) and scaled is not outputs:
        setattr(scaled, UNSCALED, outputs)
    return scaled


class LossPart(NamedTuple):
    """What one backward was called on."""

    loss: torch.Tensor
    factor: float
    """By what a number in its last operation multiplied it; 1 if that was another operation."""


class ShownLoss:
    """The losses of the backwards since the last step."""

    def __init__(self) -> None:
        self._pending: LossPart | None = None
        self._parts: list[LossPart] = []
        self._num_parts = 1
        """How many backwards of a step have shared its loss evenly, the last time that there were several."""

    @staticmethod
    def watch() -> None:
        """From now on, hear of what gradient scalers do."""
        GradScaler.scale = _watched_scale  # type: ignore[assignment,method-assign]

    def before_backward(self, tensors: Any) -> None:
        """Look at what backward is called on, while its graph is there."""
        self._pending = None
        loss = getattr(tensors, UNSCALED, tensors)
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self._pending = LossPart(loss.detach(), _factor(loss))

    def after_backward(self) -> None:
        """It has given gradients to the model."""
        if self._pending is not None:
            self._parts.append(self._pending)
            self._pending = None

    def forget(self) -> None:
        """A closure computes the step's loss again."""
        self._parts = []

    @property
    def last(self) -> float | None:
        """The loss of the last backward since the step before."""
        return float(self._parts[-1].loss) if self._parts else None

    def on_step(self) -> float | None:
        """The loss of the step that is made now; None if nothing is known of it."""
        parts, self._parts = self._parts, []
        if not parts:
            return None
        mean = sum(float(part.loss) for part in parts) / len(parts)
        if len(parts) > 1 and _are_parts_of(len(parts), parts):
            self._num_parts = len(parts)
        return mean * self._num_parts if self._num_parts > 1 and _are_parts_of(self._num_parts, parts) else mean


def _are_parts_of(num_parts: int, parts: list[LossPart]) -> bool:
    """Each was divided by this number."""
    return all(isclose(part.factor * num_parts, 1.0, rel_tol=1e-6) for part in parts)


def _factor(loss: torch.Tensor) -> float:
    """By what a plain number multiplied or divided in the loss's last operation."""
    node: Any = loss.grad_fn
    kind = FACTORS.get(node.name()) if node is not None else None
    other = None if kind is None else node._saved_other
    if kind is None or other is None or other.numel() != 1 or other.device.type != "cpu" or not float(other):
        return 1.0
    return float(kind(float(other)))
