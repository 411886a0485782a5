"""Runs of scenarios."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.peers.puppets import Puppet, Puppets

from weft.config.registry import STRATEGIES
from weft.core.errors import Deadlock
from weft.core.events import Event, StepFinished
from weft.fuzz.auditor import audit
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import EarlyFinish, Faults

NUM_SEEDS = 2 * len(STRATEGIES)
"""Strategies take turns."""

SHOW_TRACES = f"""
from weft.fuzz.campaign import judge
from weft.config.registry import STRATEGIES
print([judge(seed, tuple(STRATEGIES)).trace for seed in range({NUM_SEEDS})])
"""


def test_the_same_seed_gives_the_same_trace_whatever_python_hashes_with() -> None:
    command = [sys.executable, "-c", SHOW_TRACES]
    processes = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second
    assert first.count("'") == 2 * NUM_SEEDS


def test_a_run_without_an_end_is_an_error_that_says_who_waits() -> None:
    evidence = run(draw(0), Puppets(lambda peer, event: [] if isinstance(event, StepFinished) else None))
    assert isinstance(evidence.error, Deadlock)
    assert "all faults are over, and workers have not ended.\n" in str(evidence.error)
    assert "  worker 0 (step 1, waits in step()) waits for the user's iteration" in str(evidence.error)


def test_whatever_a_peer_raises_is_an_error_of_the_run() -> None:
    def answer(peer: Puppet, event: Event) -> None:
        if isinstance(event, StepFinished):
            raise KeyError("oops")

    assert isinstance(run(draw(0), Puppets(answer)).error, KeyError)


def test_what_lbfgs_applies_is_added_up_so_that_a_ledger_can_be_read() -> None:
    scenario = next(s for s in (draw(seed, ("sandblaster",)) for seed in range(99)) if not s.faults.schedule)
    evidence = run(scenario)
    assert evidence.error is None
    ledger = evidence.final(evidence.world.servers[0])[0]
    assert ledger[0] == 1.0
    assert (ledger >= 0.0).all()
    assert 0 < np.count_nonzero(ledger[1:]) <= len(evidence.steps)


@pytest.mark.parametrize("name", ["gossip(topology=ring, order=step_first)", "local_sgd", "ssp"])
def test_a_worker_that_would_end_after_more_steps_than_there_are_ends_with_the_others(name: str) -> None:
    """As when a scenario is made small: its faults stay as they were drawn."""
    scenario = draw(1, (name,))
    faults = Faults((EarlyFinish(scenario.num_workers - 1, 30),), notice_s=0.02, fence_s=0.5)
    evidence = run(replace(scenario, num_steps=4, faults=faults))
    assert max(step.step for step in evidence.steps) == 3
    assert audit(evidence) == []
