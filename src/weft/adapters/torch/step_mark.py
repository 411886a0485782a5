"""A mark in every gradient that says whether new samples were counted for its step.

Gradients of a step without new samples (a penalty's, a generator's) weigh as those of the step before, on every worker
alike. Where some workers have counted and others have not, no weights are right; the mark, which is averaged with the
gradient, then lies between its two values.
"""

from collections.abc import Mapping
from typing import Any

import torch

from weft.core.errors import ConfigError

NEW, AGAIN = 1.0, 2.0
"""Its values: samples were counted since the last step, or none were."""
TOLERANCE = {2: 4e-3, 4: 1e-5, 8: 1e-5}
"""By how much the mean of equal marks may differ from them, by the size of a number."""


class StepMark:
    """The flag of a tensor without elements, which lies last in the first bucket."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.tensor = torch.empty(0, dtype=dtype)
        self.place = 0
        self.given: Any = None
        """The first bucket of this worker's contribution."""
        self.is_checked = False
        """What is applied is the mean of gradients of one and the same step, so that all marks must be alike."""

    def give(self, *, has_new_samples: bool) -> None:
        """Mark this worker's contribution."""
        self.given[self.place] = NEW if has_new_samples else AGAIN

    def check(self, gradients: Mapping[int, Any]) -> None:
        """Refuse to apply a mean of steps with and without new samples."""
        if not self.is_checked or 0 not in gradients:
            return
        mark, tolerance = float(gradients[0][self.place]), TOLERANCE[gradients[0].itemsize]
        if NEW + tolerance < mark < AGAIN - tolerance:
            raise ConfigError(
                "some workers counted new samples for this step and others did not, so their gradients have no common "
                "weight.\n  Let every worker take a batch from worker.share(...) before its backward, or say "
                "worker.count(...) on all of them (0 where there are no samples)."
            )
