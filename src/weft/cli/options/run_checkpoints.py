"""Checkpoints of `weft run`: which runs may have them, and what is decided before the run starts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from weft.checkpoints.manifest import RunFacts
from weft.cli.show.screen import errors
from weft.config.options import FLAGS, keys
from weft.core.errors import ConfigError
from weft.engines.checkpoint_plan import nothing_left, plan_checkpoints, script_digest
from weft.engines.checkpointed_script import ALONE
from weft.engines.real.job import RealJob, check_survives

EVERY = "checkpoint.every"


@contextmanager
def checkpointed(
    jobs: list[RealJob], setting: str | None, said: Sequence[str] = (), *, is_here: bool
) -> Iterator[list[RealJob]]:
    """The jobs, with checkpoints if there is a folder for them; none if the very same run has finished already.

    The folder is the option checkpoint.folder or, without one, the setting from the environment or weft.toml. An
    interval that was `said` on the command line is refused without a folder; one of weft.toml waits for one.
    """
    folder = jobs[0].options.checkpoint.folder or (None if setting is None else Path(setting))
    if folder is None:
        if EVERY in keys(said):
            raise ConfigError(
                f"{FLAGS[EVERY]} says how often checkpoints are written, but not where.\n"
                "  Add --checkpoint and a folder, or leave it out."
            )
        yield jobs
        return
    _check(jobs, is_here)
    (job,) = jobs
    strategy = ALONE if job.num_workers == 1 else job.label
    facts = RunFacts(
        strategy,
        job.num_workers,
        job.seed,
        job.global_batch,
        script_digest(job.script),
        list(job.arguments),
        job.steps_max,
    )
    planned = plan_checkpoints(folder, facts, job.options.checkpoint.every)
    try:
        told = planned.told
        if planned.finished is not None:
            told = [*told, nothing_left(planned.plan.folder, planned.finished)]
        for text in told:
            errors.print(text, markup=False, soft_wrap=True)
        yield [] if planned.finished is not None else [replace(job, checkpoint=planned.plan)]
    finally:
        planned.close()


def _check(jobs: list[RealJob], is_here: bool) -> None:
    """Raise ConfigError for runs whose checkpoints could not be restored exactly."""
    if len(jobs) > 1:
        raise ConfigError(
            f"a folder of checkpoints is for one run, but these are {len(jobs)}.\n  Name one strategy, or leave it out."
        )
    if not is_here:
        raise ConfigError("checkpoints are not written on a Ray cluster yet.\n  Leave out --on, or the checkpoints.")
    if jobs[0].num_workers > 1:
        check_survives(jobs[0], "--checkpoint")
