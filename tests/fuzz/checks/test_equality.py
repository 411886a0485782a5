"""4. Equal replicas, and copies of versions."""

from dataclasses import replace

import numpy as np
import pytest

from weft.core.names import Buffer
from weft.core.script_state import RUNNING
from weft.fuzz.checks.equality import copies_are_versions, differences_are_followed, replicas_are_equal, slot_is_alike
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.fuzz.witness import Sighting, Version
from weft.sim.faults.plan import EarlyFinish, Faults


@pytest.fixture
def evidence() -> Evidence:
    scenario = next(s for s in (draw(seed, ("async_gossip",)) for seed in range(99)) if s.num_workers == 2)
    evidence = run(replace(scenario, num_trained=1, has_state=False, faults=Faults()))
    evidence.sightings.clear()
    return evidence


def see(evidence: Evidence, worker: int, step: int, value: float) -> None:
    evidence.sightings.append(Sighting(0, worker, worker, step, (np.full(3, value),)))


def test_workers_that_begin_a_step_with_different_parameters_are_named(evidence: Evidence) -> None:
    see(evidence, 0, 2, 1.0)
    see(evidence, 1, 2, 1.0)
    see(evidence, 0, 3, 1.0)
    see(evidence, 1, 3, 2.0)
    assert list(replicas_are_equal(evidence, period=2)) == []
    assert [v.what for v in replicas_are_equal(evidence)] == ["workers 0 and 1 began step 3 with different parameters"]


def test_what_a_lost_worker_began_last_over_a_lowered_reduction_is_its_own(evidence: Evidence) -> None:
    for worker, step, value in ((0, 2, 1.0), (1, 2, 1.0), (0, 3, 1.0), (1, 3, 2.0)):
        see(evidence, worker, step, value)
    evidence.simulation.nodes[1].script.at = RUNNING
    assert len(list(replicas_are_equal(evidence))) == 1
    over_a_ring = replace(evidence, scenario=replace(evidence.scenario, collective="ring"))
    assert list(replicas_are_equal(over_a_ring)) == []
    see(over_a_ring, 1, 4, 2.0)
    assert len(list(replicas_are_equal(over_a_ring))) == 1


def test_what_a_lost_worker_began_last_when_a_server_was_moved_is_its_own(evidence: Evidence) -> None:
    for worker, step, value in ((0, 2, 1.0), (1, 2, 1.0), (0, 3, 1.0), (1, 3, 2.0)):
        see(evidence, worker, step, value)
    evidence.moved = {2}
    assert len(list(replicas_are_equal(evidence))) == 1
    evidence.lost = {1}
    assert list(replicas_are_equal(evidence)) == []


def test_a_copy_that_no_server_ever_had_is_found(evidence: Evidence) -> None:
    evidence.simulation.versions.append(Version(0, 2, 0, 0, np.full(3, 1.0)))
    see(evidence, 0, 0, 9.0)
    see(evidence, 0, 1, 1.0)
    assert list(copies_are_versions(evidence)) == []
    see(evidence, 1, 3, 1.5)
    assert list(copies_are_versions(evidence, period=2)) == []
    assert [v.what for v in copies_are_versions(evidence)] == [
        "worker 1 began step 3 with values of bucket 0 that no server ever had"
    ]


def test_workers_that_end_with_different_centres_are_named() -> None:
    scenario = next(s for s in (draw(seed, ("easgd(period=2)",)) for seed in range(99)) if s.num_workers == 3)
    evidence = run(replace(scenario, num_trained=2, faults=Faults((EarlyFinish(0, 4),))))
    assert list(slot_is_alike(evidence, "centre")) == []
    evidence.slot(0, Buffer("centre", 1))[2] += 1.0
    assert list(slot_is_alike(evidence, "centre")) == []
    evidence.slot(2, Buffer("centre", 1))[2] += 1.0
    assert [v.what for v in slot_is_alike(evidence, "centre")] == [
        f"workers 1 and 2 ended after {scenario.num_steps} steps with different values of 'centre' in bucket 1"
    ]


def test_a_newcomers_first_copy_is_a_servers_whatever_the_period(evidence: Evidence) -> None:
    evidence.simulation.versions.append(Version(0, 2, 0, 0, np.full(3, 1.0)))
    evidence.sightings.append(Sighting(0, 1, 2, 3, (np.full(3, 1.0),)))
    see(evidence, 0, 3, 1.5)
    assert list(copies_are_versions(evidence, period=2)) == []
    evidence.sightings[0] = Sighting(0, 1, 2, 3, (np.full(3, 1.5),))
    assert len(list(copies_are_versions(evidence, period=2))) == 1


def test_a_worker_that_made_no_step_ends_where_it_came_in() -> None:
    scenario = next(s for s in (draw(seed, ("easgd(period=2)",)) for seed in range(99)) if s.num_workers == 3)
    evidence = run(replace(scenario, num_trained=1, faults=Faults()))
    evidence.steps[:] = [step for step in evidence.steps if step.worker != 1]
    assert list(slot_is_alike(evidence, "centre")) == []
    evidence.slot(1, Buffer("centre", 0))[2] += 1.0
    assert len(list(slot_is_alike(evidence, "centre"))) == 1


@pytest.mark.slow
def test_what_a_server_believes_that_a_worker_was_told_is_what_it_was_told() -> None:
    scenario = next(s for s in (draw(seed, ("ssp(servers=1)",)) for seed in range(99)) if s.num_workers == 2)
    evidence = run(replace(scenario, num_trained=1, faults=Faults(), compress="topk(0.002)"))
    assert list(differences_are_followed(evidence)) == []
    told = evidence.slot(1, Buffer("params:held", 0))
    believed = f"{told[0]:.6g}"
    told[0] = 3.0
    assert [v.what for v in differences_are_followed(evidence)] == [
        f"worker 1 was told 3 of the ground in bucket 0, but its server believes {believed}"
    ]
    evidence.messages.clear()
    assert list(differences_are_followed(evidence)) == [], "it was told nothing"
