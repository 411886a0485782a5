"""Deep Gradient Compression: one gradient in a thousand, with the momentum that the others missed."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.codecs.codec import Array, Form, Turn
from weft.codecs.picking import Velocity, gather
from weft.codecs.ranges import check_above_zero, check_fraction, check_whole
from weft.codecs.sparse import Picked, Sparsifier, kept, take
from weft.core.errors import ConfigError
from weft.core.names import Carries

WARMUP_FRACTIONS = (0.25, 0.0625, 0.015625, 0.004)


@dataclass(frozen=True)
class DGC(Sparsifier):
    """Deep Gradient Compression (Lin et al. 2017): the largest `fraction` of what has gathered.

    Momentum correction: a velocity u = momentum u + gradient is kept here and gathered in the residual, instead of
    by the optimizer. Factor masking: what is sent is forgotten in both, once the warm-up is over; before,
    little is old, and numbers that are sent all the time would have no momentum. Local clipping: a gradient whose norm
    is above `clip` is shortened to it first. Warm-up: the fraction falls in five equal stretches of `warmup_steps`,
    25 % in the first. `momentum` None is that of the optimizer: `taking_over` fills it in.
    """

    carries: ClassVar[frozenset[Carries]] = frozenset({Carries.GRADIENT})
    takes_momentum: ClassVar[bool] = True

    fraction: float = 0.001
    momentum: float | None = None
    clip: float | None = None
    warmup_steps: int = 400

    def __post_init__(self) -> None:
        check_fraction("dgc", self.fraction, usual=0.001)
        check_whole("dgc", "warmup_steps", self.warmup_steps, 0, 1 << 40, usual=400)
        if self.clip is not None:
            check_above_zero("dgc", "clip", self.clip, usual=1.0)
        if self.momentum is not None and not 0.0 <= self.momentum < 1.0:
            raise ConfigError(
                f"momentum of 'dgc' is {self.momentum}, but it is from 0 to below 1.\n"
                "  Leave it out: the optimizer's is taken over."
            )

    def taking_over(self, momentum: float) -> "DGC":
        """The same with the optimizer's momentum, unless it has its own."""
        return self if self.momentum is not None else replace(self, momentum=momentum)

    def prepare(self, itemsize: int) -> None:
        super(DGC, replace(self, momentum=0.0)).prepare(itemsize)

    def fraction_at(self, clock: int) -> float:
        """What fraction is sent at a step: more in the warm-up, never less than at last."""
        num_stretches = len(WARMUP_FRACTIONS) + 1
        if clock >= self.warmup_steps:
            return self.fraction
        return max(self.fraction, (*WARMUP_FRACTIONS, self.fraction)[clock * num_stretches // self.warmup_steps])

    def most(self, form: Form, clock: int) -> int:
        return kept(self.fraction_at(clock), form)

    def pick(self, values: Array, residual: Array | None, form: Form, turn: Turn, given: Array | None) -> Picked:
        momentum = self.momentum or 0.0 if given is not None else 0.0
        total = np.zeros(form.num_elements, form.dtype) if residual is None else residual
        by = Velocity(momentum, self._factor(values), given)
        gathered, places = gather(values, total, form, largest=self.most(form, turn.clock), by=by)
        picked = take(total, total, places, gathered.bad)
        if given is not None and turn.clock >= self.warmup_steps:
            given[np.setdiff1d(places, gathered.bad, assume_unique=True) if gathered.bad.size else places] = 0
        return picked

    def _factor(self, values: Array) -> float:
        """By what a gradient is multiplied so that its norm, without what is not finite, is at most `clip`."""
        if self.clip is None:
            return 1.0
        finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float64)
        norm = float(np.linalg.norm(finite))
        return min(1.0, self.clip / norm) if norm else 1.0
