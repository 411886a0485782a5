"""How many steps a run will have; warns if it ends before its strategy's first exchange: then each worker is alone."""

from collections.abc import Callable

from weft.core.names import Result
from weft.core.strategy import Strategy
from weft.data.dealt import portions
from weft.data.static import global_batches
from weft.runtime.messages import Planned


class ShortRun:
    """Warns once, as soon as it is known, that the run has fewer steps than the strategy's first exchange needs."""

    def __init__(self, strategy: Strategy, num_workers: int, tell: Callable[[str], None]) -> None:
        self._period = strategy.first_exchange if num_workers > 1 else 1
        self._is_mean = strategy.result in (Result.MEAN, Result.CENTRE, Result.SERVERS)
        self._tell = tell
        self._has_told = False

    def expect(self, num_steps: int | None) -> None:
        """Warn if `num_steps`, the most steps that a worker will make, are too few; None: that is not known yet."""
        self._look(num_steps or 0, "will never meet", "Each trains")

    def end(self, num_steps: int) -> None:
        """Warn at the end if `num_steps`, the most steps that a worker has made, were too few."""
        self._look(num_steps, "never met", "Each trained")

    def _look(self, num_steps: int, what: str, each: str) -> None:
        if self._has_told or not 0 < num_steps < self._period:
            return
        self._has_told = True
        result = ", and the result is the mean of their models" if self._is_mean else ""
        self._tell(
            f"{num_steps} steps, period {self._period}: workers {what}. {each} alone{result}.\n"
            f"  Use a period of {num_steps} steps or fewer, or train longer."
        )


def steps_planned(plan: Planned, num_workers: int, global_batch: int | None, *, deals_portions: bool) -> int:
    """The steps that each worker will make in an epoch; where they make different numbers, the mean."""
    cut = portions if deals_portions else global_batches
    num_spans = len(cut(plan.num_samples, num_workers, plan.batch_size, plan.drop_last, global_batch=global_batch))
    return -(-num_spans // num_workers) if deals_portions else num_spans
