"""A mark in every gradient: whether new samples were counted for its step, and whose step the last one was.

Gradients of a step without new samples (a penalty's, a generator's) weigh as those of the step before, on every worker
alike. Where some workers have counted and others have not, no weights are right; where they have stepped different
optimizers, their parameters differ. The mark is averaged with the gradient: marks that differ give none of its values.
"""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any

import torch

from weft.core.errors import ConfigError

NEW, AGAIN = 1, 2
"""Samples were counted since the last step, or none were."""
OPTIMIZER = 4
"""Times the number of the optimizer that has made the last step, which is added."""
TOLERANCE = {2: 4e-3, 4: 1e-5, 8: 1e-5}
"""By how much the mean of equal marks may differ from them, by the size of a number."""


class StepMark:
    """The flag of a tensor without elements, which lies last in the first bucket."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.tensor = torch.empty(0, dtype=dtype)
        self.place = 0
        self.given: Any = None
        """The first bucket of this worker's contribution."""
        self._own: int | None = None
        self.is_checked = False
        """What is applied is the mean of gradients of one and the same step, so that all marks must be alike."""

    def give(self, *, has_new_samples: bool, after: int = 0) -> None:
        """Mark this worker's contribution; `after` is the optimizer of the last step, from 1."""
        self._own = (NEW if has_new_samples else AGAIN) + OPTIMIZER * after
        self.given[self.place] = self._own

    def check(self, gradients: Mapping[int, Any]) -> None:
        """Refuse to apply a mean of steps that are not alike. A server, which has no mark of its own, knows by values
        that no mark has."""
        if not self.is_checked or 0 not in gradients:
            return
        mark, tolerance = float(gradients[0][self.place]), TOLERANCE[gradients[0].itemsize]
        expected = round(mark) if self._own is None else self._own
        is_one = expected == 0 or expected % OPTIMIZER in (NEW, AGAIN)
        if not mark or (is_one and abs(mark - expected) <= tolerance * max(mark, 1)):
            return
        if floor(mark) % OPTIMIZER != NEW or ceil(mark) % OPTIMIZER != AGAIN:
            raise ConfigError(
                "workers have made their last step with different optimizers, so their parameters differ.\n"
                "  Let every worker step the same optimizers in the same order: decide by what all see alike."
            )
        raise ConfigError(
            "some workers counted new samples for this step and others did not, so their gradients have no common "
            "weight.\n  Let every worker take a batch from worker.share(...) before its backward, or say "
            "worker.count(...) on all of them (0 where there are no samples)."
        )
