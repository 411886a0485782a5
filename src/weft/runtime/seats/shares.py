"""A worker's requests to its engine for shares of the data, and the measured speeds that it sends with them."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.activity import COMPUTES, READS
from weft.data.shares import PROPORTIONAL, STEALING
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.messages import (
    FractionsAsked,
    FractionsTold,
    Message,
    PortionRequested,
    PortionTold,
    ThroughputMeasured,
    WorkerJob,
)

TOLD_PER_BLOCK = 4
"""How often per block a worker sends its speed: the engine decides a block's fractions when the first worker asks."""


class EngineShares:
    """The shares of one worker, as its engine decides them."""

    def __init__(
        self,
        job: WorkerJob,
        send: Callable[[Message], object],
        expect: Callable[[type[Any]], Any],
        activity_clock: ActivityClock,
    ) -> None:
        self.block_steps = job.block_steps if job.share == PROPORTIONAL else None
        self.steals = job.share == STEALING
        self._send = send
        self._expect = expect
        self._activity_clock = activity_clock
        self._measured = ThroughputMeasured(0, 0.0, 0.0)

    def step(self, samples: float) -> None:
        """Count a step on `samples` samples; under PROPORTIONAL, sends the speed TOLD_PER_BLOCK times per block."""
        if self.block_steps is None:
            return
        before, seconds = self._measured, self._activity_clock.seconds()
        self._measured = ThroughputMeasured(
            before.steps + 1, before.samples + samples, seconds[COMPUTES] + seconds[READS]
        )
        if self._measured.steps % max(1, self.block_steps // TOLD_PER_BLOCK) == 0:
            self._send(self._measured)

    def fractions(self, share: int, num_samples: int, block: int) -> Sequence[float]:
        """Ask the engine which fraction of a global batch each worker gets in block `block` of share `share`."""
        self._send(FractionsAsked(share, num_samples, block, self._measured))
        fractions: list[float] = self._expect(FractionsTold).fractions
        return fractions

    def portion(self, num_samples: int, share: int, num_portions: int) -> int | None:
        """Request the next of `num_portions` portions of a share; None when all are taken."""
        self._send(PortionRequested(share, num_samples, num_portions))
        portion: int | None = self._expect(PortionTold).portion
        return portion
