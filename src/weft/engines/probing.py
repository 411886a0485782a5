"""A first look at a script: which numbers it reports."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.core.errors import ConfigError, did_you_mean
from weft.engines.local import Bear, run_local
from weft.engines.local_job import LocalJob
from weft.engines.local_outcome import NOT_REPORTED as BESIDE_REAL
from weft.engines.simulated import Watcher, simulate
from weft.engines.simulated_job import Job
from weft.observe.comparison import Target
from weft.sim.facts import NOT_REPORTED as BESIDE_SIMULATED

NOT_REPORTED = {*BESIDE_REAL, *BESIDE_SIMULATED}


STEPS_MAX = 1000
"""Of a first look: a script of its own loops may make many."""


def reported_names(job: LocalJob, bear: Bear) -> list[str]:
    """The names of all that the script reports, by a first look: one worker, one step of each share."""
    probe = LocalJob(job.script, job.arguments, 1, seed=job.seed, options=job.options, saves=False, is_probe=True)
    return _names(run_local(replace(probe, steps_max=STEPS_MAX), None, bear).reports)


def simulated_names(job: Job) -> list[str]:
    """The same of a script that is to be simulated."""
    probe = Job(job.script, job.arguments, job.cluster, 1, seed=job.seed, saves=False, is_probe=True)
    return _names(simulate(replace(probe, steps_max=STEPS_MAX), Watcher(show=lambda line: None)).facts.reports)


def _names(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for report in reports for name in report if name not in NOT_REPORTED))


def check_target(target: Target, names: Sequence[str]) -> None:
    """Refuse a number that a script does not report, though it reports others."""
    if names and target.name not in names:
        raise ConfigError(
            f"the script does not report '{target.name}', so --target {target} is never reached.\n"
            f"  It reports: {', '.join(names)}. {did_you_mean(target.name, names)}"
        )


def read_target(text: str) -> Target:
    """'accuracy=0.97'."""
    match = re.fullmatch(r"\s*(\w+)\s*=\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*", text)
    if match is None:
        raise ConfigError(
            f"--target got '{text}', but wants a reported number and a value.\n  Write e.g. --target accuracy=0.97."
        )
    return Target(match[1], float(match[2]))
