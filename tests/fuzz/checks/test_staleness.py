"""3. Staleness."""

from dataclasses import replace

import pytest

from weft.core.actions import Compute
from weft.core.events import GradientReady, Started, StepFinished
from weft.fuzz.checks.staleness import stays_in_step, stays_within
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Faults


@pytest.fixture
def evidence() -> Evidence:
    """Two workers that began; worker 0 finished two steps, worker 1 one."""
    scenario = next(s for s in (draw(seed, ("async_gossip",)) for seed in range(99)) if s.num_workers == 2)
    evidence = run(replace(scenario, faults=Faults()))
    evidence.recording.entries[:] = [
        (0, 0, Started(0), [Compute(0)]),
        (0, 1, Started(0), [Compute(0)]),
        (1, 0, GradientReady(0, 0, 1.0), []),
        (1, 1, GradientReady(0, 0, 1.0), []),
        (2, 0, StepFinished(0, 1.0, None), [Compute(1)]),
        (3, 0, GradientReady(1, 0, 1.0), []),
        (4, 0, StepFinished(1, 1.0, None), [Compute(2)]),
    ]
    return evidence


def test_a_lead_beyond_the_bound_is_found_when_it_begins(evidence: Evidence) -> None:
    assert list(stays_within(evidence, bound=2)) == []
    assert [v.what for v in stays_within(evidence, bound=1)] == [
        "worker 0 began step 2 at 0.000000 s, when worker 1 had done 0 steps: more than 1 behind"
    ]


def test_in_step_means_that_all_have_computed_the_step_before(evidence: Evidence) -> None:
    assert [v.what for v in stays_in_step(evidence)] == [
        "worker 0 began step 2 at 0.000000 s, when worker 1 had done 1 steps: more than 0 behind"
    ]
    del evidence.recording.entries[-1]
    assert list(stays_in_step(evidence)) == []
