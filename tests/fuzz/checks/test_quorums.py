"""3. Steps that a quorum closes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from weft.core.events import MembersChanged
from weft.fuzz.checks.quorums import are_on_time
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.fuzz.witness import Sighting, Version
from weft.sim.faults.plan import Faults


@pytest.fixture
def evidence() -> Evidence:
    """Three workers and a server: what it held, and what they began with, is made up by each test."""
    scenario = next(s for s in (draw(seed, ("quorum(servers=1)",)) for seed in range(99)) if s.num_workers == 3)
    evidence = run(replace(scenario, num_trained=1, has_state=False, compress=None, faults=Faults()))
    for made_up in (evidence.sightings, evidence.simulation.versions, evidence.recording.entries):
        made_up.clear()
    return evidence


def held(evidence: Evidence, **weights: float) -> np.ndarray:
    """What a server held: steps such as w1s2 with these weights."""
    array = np.zeros(evidence.scenario.book.num_elements)
    array[0] = 1.0
    for name, weight in weights.items():
        array[evidence.scenario.book.place(*map(int, name[1:].split("s")))] = weight
    version = Version(len(evidence.simulation.versions), evidence.world.servers[0], 0, 0, array)
    evidence.simulation.versions.append(version)
    return array


def all_but_one(num_workers: int) -> int:
    return num_workers - 1


drops = partial(are_on_time, num_needed=all_but_one, may_carry=False)
carries = partial(are_on_time, num_needed=all_but_one, may_carry=True)


def test_a_late_gradient_that_is_taken_is_found(evidence: Evidence) -> None:
    first = held(evidence)
    evidence.sightings.extend(Sighting(0, worker, worker, 0, (first,)) for worker in range(3))
    second = held(evidence, w0s0=0.5, w1s0=0.5)
    evidence.sightings.extend(Sighting(1, worker, worker, 1, (second,)) for worker in (0, 1))
    assert list(drops(evidence)) == []
    held(evidence, w0s0=0.5, w1s0=0.5, w0s1=1 / 3, w1s1=1 / 3, w2s0=1 / 3)
    assert list(carries(evidence)) == []
    assert [violation.what for violation in drops(evidence)] == [
        "server 0, bucket 0, applied step 0 of worker 2, which was computed on older parameters"
    ]


def test_a_carried_gradient_does_not_count_for_the_quorum(evidence: Evidence) -> None:
    first = held(evidence)
    evidence.sightings.extend(Sighting(0, worker, worker, 0, (first,)) for worker in range(3))
    second = held(evidence, w0s0=0.5, w1s0=0.5)
    evidence.sightings.append(Sighting(1, 0, 0, 1, (second,)))
    held(evidence, w0s0=0.5, w1s0=0.5, w0s1=0.5, w2s0=0.5)
    assert [violation.what for violation in carries(evidence)] == [
        "server 0, bucket 0, closed a step with a weight of 1, though 1 gradients that were not late are worth 0.5"
    ]
    evidence.recording.entries.append((1, evidence.world.servers[0], MembersChanged(1, (0, 2, 3), "lost"), []))
    assert list(carries(evidence)) == []
