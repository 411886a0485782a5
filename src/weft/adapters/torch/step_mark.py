"""A mark in every gradient: whether new samples were counted for its step, and which optimizer made the last step.

Gradients of a step without new samples (a penalty's, a generator's) weigh as those of the step before, on every worker
alike. If some workers have counted samples and others have not, no weights are right; if they have stepped different
optimizers, their parameters differ. The mark is averaged with the gradient: the mean of different marks is no mark.

However uneven the samples are, the mean of different marks differs from at least one of them by half or more, and that
worker refuses it. A server has no mark of its own, and can only see differences above the rounding of the mean: in
float32, of workers whose share of the samples is above about 1.2e-7 (n + 4) times the mark, among n workers.
"""

from collections.abc import Mapping
from math import ceil, floor
from typing import Any

import torch

from weft.core.errors import ConfigError

NEW, AGAIN = 1, 2
"""Samples were counted since the last step, or none were."""
OPTIMIZER = 4
"""A mark is NEW or AGAIN, plus OPTIMIZER times the number of the optimizer that made the last step."""
FAR = 0.25
"""How far a mean may be from a worker's own mark. Of different whole numbers, at least one is further from their mean;
rounding stays below it."""
ROUNDING = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-23}
"""Twice the relative rounding error of one operation, by the bytes of a number."""


class StepMark:
    """The flag of a tensor without elements, which lies last in the first bucket."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.tensor = torch.empty(0, dtype=dtype)
        self.element = 0
        self.given: Any = None
        """Memory of the first bucket of this worker's contribution."""
        self._own: int | None = None
        self.num_workers: int | None = None
        """Number of workers whose gradients of the same step are averaged, so that all marks must be equal; None: what
        is applied may be of several steps."""

    def give(self, *, has_new_samples: bool, after: int = 0) -> None:
        """Mark this worker's contribution; `after` is the optimizer of the last step, from 1."""
        self._own = (NEW if has_new_samples else AGAIN) + OPTIMIZER * after
        self.given[self.element] = self._own

    def check(self, gradients: Mapping[int, Any]) -> None:
        """Raise ConfigError if the mean is of different marks. A server, which has no mark of its own, recognises
        values that no mark has."""
        if self.num_workers is None or 0 not in gradients:
            return
        mark, limit, expected = float(gradients[0][self.element]), FAR, self._own
        if expected is None:
            expected, limit = round(mark), min(FAR, (self.num_workers + 4) * ROUNDING[gradients[0].itemsize] * mark)
        is_one = expected == 0 or expected % OPTIMIZER in (NEW, AGAIN)
        if not mark or (is_one and abs(mark - expected) <= limit):
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
