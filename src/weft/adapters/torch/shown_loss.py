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
"""From the name of the last operation in the graph, and its number, to the factor by which it multiplies."""

_plain_scale = GradScaler.scale


def _watched_scale(scaler: GradScaler, outputs: Any) -> Any:
    """GradScaler.scale; the unscaled tensor is kept as an attribute of the result."""
    scaled = _plain_scale(scaler, outputs)
    if isinstance(scaled, torch.Tensor) and scaled is not outputs:
        setattr(scaled, UNSCALED, outputs)
    return scaled


class LossPart(NamedTuple):
    """The loss that one backward was called on."""

    loss: torch.Tensor
    factor: float
    """The number by which its last operation multiplied; 1 if that was another operation."""


class ShownLoss:
    """The losses of the backwards since the last step."""

    def __init__(self) -> None:
        self._pending: LossPart | None = None
        self._parts: list[LossPart] = []
        self._num_parts = 1
        """Number of backwards of `loss / n` in the last step that had several."""

    @staticmethod
    def watch() -> None:
        """Replace GradScaler.scale, to see losses before they are scaled."""
        GradScaler.scale = _watched_scale  # type: ignore[assignment,method-assign]

    def before_backward(self, tensors: Any) -> None:
        """Take the loss that backward is called on, while its graph still exists."""
        self._pending = None
        loss = getattr(tensors, UNSCALED, tensors)
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self._pending = LossPart(loss.detach(), _factor(loss))

    def after_backward(self) -> None:
        """Count the loss: backward has filled gradients of the model."""
        if self._pending is not None:
            self._parts.append(self._pending)
            self._pending = None

    def forget(self) -> None:
        """Drop the losses since the last step: a closure computes the loss again."""
        self._parts = []

    @property
    def last(self) -> float | None:
        """The loss of the last backward since the step before."""
        return float(self._parts[-1].loss) if self._parts else None

    def on_step(self) -> float | None:
        """The loss of the step that is made now; None if no backward was seen."""
        parts, self._parts = self._parts, []
        if not parts:
            return None
        mean = sum(float(part.loss) for part in parts) / len(parts)
        if len(parts) > 1 and _are_parts_of(len(parts), parts):
            self._num_parts = len(parts)
        return mean * self._num_parts if self._num_parts > 1 and _are_parts_of(self._num_parts, parts) else mean


def _are_parts_of(num_parts: int, parts: list[LossPart]) -> bool:
    """Whether each loss was divided by `num_parts`."""
    return all(isclose(part.factor * num_parts, 1.0, rel_tol=1e-6) for part in parts)


def _factor(loss: torch.Tensor) -> float:
    """The factor of a multiplication or division by a plain number in the loss's last operation; else 1."""
    node: Any = loss.grad_fn
    kind = FACTORS.get(node.name()) if node is not None else None
    other = None if kind is None else node._saved_other
    if kind is None or other is None or other.numel() != 1 or other.device.type != "cpu" or not float(other):
        return 1.0
    return float(kind(float(other)))
