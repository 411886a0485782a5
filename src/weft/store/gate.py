"""The gate between a worker's gradients and its protocol: what is not finite stays out, and is told.

A gradient that is not finite weighs nothing, which every protocol knows how to leave out (rule 9 of
docs/architecture.md): the mean is that of the others, and methods that apply a worker's own gradient do not apply it.
Where a strategy reduces buckets while backward still runs, each bucket is decided on when it is given: what was given
before stays given. Everywhere else the whole step is left out. What the script sees in `.grad` is not touched before
its step: a bucket that counted for nobody still shows what it was, so that a gradient scaler finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.errors import NotFinite
from weft.core.names import GIVEN, GRADIENT, PARAMS, Result
from weft.core.seat import Replica
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut
from weft.store.finite import bad_tensor, is_finite

MIXED = (Result.MEAN, Result.CENTRE)
"""The results of strategies whose workers mix their parameters with each other's."""


class Gate:
    """One worker's gate; `tell` hears of each step that is left out, once."""

    def __init__(
        self, rank: int, num_workers: int, strategy: Strategy, replica: Replica, tell: Callable[[LeftOut], None]
    ) -> None:
        self._rank = rank
        self._replica = replica
        self._tell = tell
        self._is_alike = strategy.keeps_replicas_equal
        self._is_mixed = strategy.result in MIXED and num_workers > 1
        kinds = list(enumerate(replica.buckets))
        self._trained = [bucket for bucket, kind in kinds if kind.trainable]
        self.kept = {b: replica.array(PARAMS, b).copy() for b, kind in kinds if not (kind.trainable or kind.tuned)}
        """What is not trained (BatchNorm's means), as the last reduction left it, or else the last step."""
        self._last: int | None = None
        """The step that was left out last."""
        self._first = 0
        """The first of the steps in a row that ends with it."""
        self.num_steps = 0
        self.is_closed = False
        """Something of the last gradient was left out."""
        self._is_spoilt = False

    def begin(self, *, is_spoilt: bool = False) -> None:
        """A backward gives its first bucket. One that `is_spoilt` becomes NaN (--chaos)."""
        self.is_closed, self._is_spoilt = False, is_spoilt

    def weigh(self, step: int, bucket: int, samples: float) -> float:
        """What a bucket of the gradient weighs that is given while backward runs, or right after it."""
        if self._is_spoilt and self._is_alike:
            self._replica.array(GIVEN, bucket)[:] = np.nan
        if not self._is_alike or is_finite(self._replica.array(GIVEN, bucket)):
            return samples
        self._leave_out(step, GIVEN, [bucket])
        return 0.0

    def finish(self, step: int, samples: float, loss: float | None) -> tuple[float, float | None]:
        """What the peer is told of a step that its script has finished: samples and loss, none if it is left out."""
        if self._is_alike:
            return samples, None if self.is_closed else loss
        gradients = [self._replica.array(GRADIENT, bucket) for bucket in self._trained]
        for gradient in gradients if self._is_spoilt else ():
            gradient[:] = np.nan
        if all(is_finite(gradient) for gradient in gradients):
            return samples, loss
        self._leave_out(step, GRADIENT, self._trained)
        for gradient in gradients:
            gradient[:] = 0
        return 0.0, None

    def lets_apply(self, gradients: Mapping[int, Any]) -> bool:
        """After a bucket was left out, clipping may have spread what nobody's samples counted for to others."""
        applied = [array for bucket, array in gradients.items() if self._replica.steps(bucket)]
        return not (self._is_alike and self.is_closed) or all(is_finite(array) for array in applied)

    def reduced(self) -> None:
        """Backward may return. Where replicas are equal, so is what is not trained, until the script writes to it."""
        if self._is_alike:
            self.keep()

    def end(self) -> None:
        """The step is over."""
        if not self._is_alike:
            self.keep()

    def keep(self) -> None:
        """What is not trained is the same on all workers now, or that of a newcomer's sponsor."""
        for bucket, kept in self.kept.items():
            np.copyto(kept, self._replica.array(PARAMS, bucket))

    def _leave_out(self, step: int, slot: str, buckets: Sequence[int]) -> None:
        self.is_closed = True
        for bucket, kept in self.kept.items():
            array = self._replica.array(PARAMS, bucket)
            if np.isnan(array).any():  # the forward that gave such a gradient has spoilt its means, too
                np.copyto(array, kept)
        if step == self._last:
            return
        if self._last is None or step != self._last + 1:
            self._first = step
        self._last = step
        parameter = bad_tensor(self._replica, PARAMS, self._trained)
        if parameter is not None and self._is_mixed:
            raise NotFinite(
                f"parameter '{parameter}' of worker {self._rank} is not finite at step {step}, and others would mix it "
                "with theirs.\n  Lower the learning rate if training has diverged, or look for what the script wrote."
            )
        self.num_steps += 1
        gradient = f"the gradient of '{bad_tensor(self._replica, slot, buckets)}'"
        what = gradient if parameter is None else f"parameter '{parameter}'"
        self._tell(LeftOut(step, what, self.num_steps, self._first))
