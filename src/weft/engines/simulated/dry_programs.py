"""Programs of dry runs: the steps of each worker without tensors, from the epochs and batches that a script plans."""

from collections.abc import Iterable, Iterator
from itertools import count

from weft.core.errors import ConfigError
from weft.core.strategy import Strategy
from weft.data.dealt import portions
from weft.data.shares import STATIC
from weft.data.static import Span, global_batches, share_of
from weft.engines.simulated.job import SimulatedJob
from weft.sim.program import GhostProgram, GhostSharer, GhostTaker, Program
from weft.sim.script import ScriptPlan
from weft.sim.shares import VirtualShares


def num_steps(job: SimulatedJob, strategy: Strategy, plan: ScriptPlan | None) -> int:
    """The number of steps of all workers together."""
    if job.steps_max is not None:
        return job.steps_max * job.num_workers
    if plan is None or plan.num_epochs is None:
        raise ConfigError(
            "a dry run cannot know how long the script would train.\n"
            "  Add --steps 100, or use worker.epochs(...) and worker.share(...) in the script."
        )
    spans, is_for_all = _spans(job, strategy, plan)
    return plan.num_epochs * len(spans) * (1 if is_for_all else job.num_workers)


def num_samples(job: SimulatedJob, strategy: Strategy, plan: ScriptPlan) -> int | None:
    """The number of samples of all steps together; None if `steps_max` ends the run, or the script plans no epochs."""
    if job.steps_max is not None or plan.num_epochs is None:
        return None
    return plan.num_epochs * sum(stop - start for start, stop in _spans(job, strategy, plan)[0])


def ghosts(
    job: SimulatedJob, strategy: Strategy, plan: ScriptPlan | None, first: float, shares: VirtualShares
) -> list[Program]:
    """A program without tensors for each worker; `first` is the number of samples in the first step."""
    workers, each = range(job.num_workers), num_steps(job, strategy, plan) // job.num_workers
    if plan is None:
        return [GhostProgram([int(first)], each) for _ in workers]
    spans, _ = _spans(job, strategy, plan)
    if job.sharing != STATIC:
        return [GhostSharer(_sizes(job, plan, shares, rank, spans), job.steps_max) for rank in workers]
    if plan.num_epochs is None:
        return [GhostProgram([int(first)], each) for _ in workers]
    if strategy.deals_portions:
        samples = [stop - start for start, stop in spans]
        return [GhostTaker(samples, plan.num_epochs, job.steps_max) for _ in workers]
    return [GhostProgram(_even_sizes(spans, rank, job.num_workers), each) for rank in workers]


def _spans(job: SimulatedJob, strategy: Strategy, plan: ScriptPlan) -> tuple[list[Span], bool]:
    """The spans of one share, and whether each goes to one worker as a whole, rather than in parts to all workers."""
    is_for_one = strategy.deals_portions or job.steals
    cut = portions if is_for_one else global_batches
    return cut(plan.num_samples, job.num_workers, plan.batch_size, plan.drop_last), is_for_one


def _sizes(
    job: SimulatedJob, plan: ScriptPlan, shares: VirtualShares, rank: int, spans: list[Span]
) -> Iterator[Iterable[int]]:
    """The samples of one worker's batches, share by share; endless unless planned epochs end the run."""
    numbers = count() if plan.num_epochs is None or job.steps_max is not None else range(plan.num_epochs)
    return (shares.sizes(rank, share, spans) for share in numbers)


def _even_sizes(spans: list[Span], rank: int, num_workers: int) -> list[int]:
    parts = [share_of(span, rank, num_workers) for span in spans]
    return [stop - start for start, stop in parts]
