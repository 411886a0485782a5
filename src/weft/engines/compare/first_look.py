"""The first look at a script: a short run that finds the names of the numbers that the script reports."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from weft.core.errors import ConfigError, NodeLost, did_you_mean
from weft.engines.local.launcher import Fork, run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import NOT_REPORTED as BESIDE_REAL
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate
from weft.engines.simulated.world_run import SimulationObserver
from weft.observe.records.comparison import Target
from weft.sim.facts import NOT_REPORTED as BESIDE_SIMULATED

NOT_REPORTED = {*BESIDE_REAL, *BESIDE_SIMULATED}


STEPS_MAX = 1000
"""Steps of a first look at most: a script with a loop of its own, without shares, would make many."""


def reported_names(job: RealJob, fork: Fork, show: Callable[[str], None]) -> list[str]:
    """The names of all numbers that the script reports, found with one worker and one step of each share.

    What it prints is dropped; if it leaves by sys.exit, `show` gets what it printed.
    """
    probe = RealJob(
        script=job.script,
        arguments=job.arguments,
        num_workers=1,
        seed=job.seed,
        options=job.options,
        saves=False,
        is_probe=True,
    )
    with _shown_if_it_says_why(show) as lines:
        observer = Observer(on_line=lambda rank, text, is_error: lines.append(text))
        return _names(run_local(replace(probe, steps_max=STEPS_MAX), observer, fork).reports)


def simulated_names(job: SimulatedJob, show: Callable[[str], None]) -> list[str]:
    """The same names, found by simulating the script."""
    probe = SimulatedJob(
        script=job.script,
        arguments=job.arguments,
        cluster=job.cluster,
        num_workers=1,
        seed=job.seed,
        saves=False,
        is_probe=True,
    )
    with _shown_if_it_says_why(show) as lines:
        return _names(simulate(replace(probe, steps_max=STEPS_MAX), SimulationObserver(lines.append)).facts.reports)


@contextmanager
def _shown_if_it_says_why(show: Callable[[str], None]) -> Iterator[list[str]]:
    """A context with a list for printed lines, which are shown if the script left by sys.exit and printed why."""
    lines: list[str] = []
    try:
        yield lines
    except NodeLost as lost:
        if lost.is_said and lines:
            show("\n".join(lines))
        raise


def _names(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in report if name not in NOT_REPORTED))


def check_target(target: Target, names: Sequence[str]) -> None:
    """Raise ConfigError if the script reports numbers, but not the one of `target`."""
    if names and target.name not in names:
        raise ConfigError(
            f"the script does not report '{target.name}', so --target {target} is never reached.\n"
            f"  It reports: {', '.join(names)}. {did_you_mean(target.name, names)}"
        )


def read_target(text: str) -> Target:
    """The target in a text such as 'accuracy=0.97'."""
    match = re.fullmatch(r"\s*(\w+)\s*=\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*", text)
    if match is None:
        raise ConfigError(
            f"--target got '{text}', but wants a reported number and a value.\n  Write e.g. --target accuracy=0.97."
        )
    return Target(match[1], float(match[2]))
