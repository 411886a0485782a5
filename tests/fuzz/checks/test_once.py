"""2. At most once, and the ledger adds up."""

from dataclasses import replace

import numpy as np
import pytest

from weft.fuzz.checks import once
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.fuzz.witness import Sighting, Version
from weft.sim.faults.plan import Faults


@pytest.fixture
def evidence() -> Evidence:
    """Nothing but a world: what its replicas held is made up by each test."""
    scenario = next(s for s in (draw(seed, ("async_gossip",)) for seed in range(99)) if s.num_workers == 3)
    samples = tuple((usual,) * scenario.num_steps for usual in (1.0, 2.0, 1.0))
    scenario = replace(scenario, num_trained=1, has_state=False, samples=samples, faults=Faults())
    evidence = run(scenario)
    evidence.sightings.clear()
    return evidence


def held(evidence: Evidence, **weights: float) -> np.ndarray:
    """A replica in which steps such as w1s2 have these weights."""
    array = np.zeros(evidence.scenario.book.num_elements)
    array[0] = 1.0
    for name, weight in weights.items():
        worker, step = name[1:].split("s")
        array[evidence.scenario.book.place(int(worker), int(step))] = weight
    return array


def seen(evidence: Evidence, *arrays: np.ndarray) -> None:
    evidence.sightings.extend(Sighting(i, 0, 0, i, (array,)) for i, array in enumerate(arrays))


def versions(evidence: Evidence, *arrays: np.ndarray) -> None:
    evidence.simulation.versions.extend(Version(i, 3, 0, 0, array) for i, array in enumerate(arrays))


def test_numbers_that_are_not_finite_are_found_on_the_way_and_at_the_end(evidence: Evidence) -> None:
    assert list(once.is_finite(evidence)) == []
    seen(evidence, held(evidence, w0s0=np.nan))
    assert [v.what for v in once.is_finite(evidence)] == ["worker 0 began step 0 with numbers that are not finite"]
    evidence.sightings.clear()
    evidence.simulation.nodes[2].store.replica.params[0][0] = np.inf  # type: ignore[attr-defined]
    assert [v.what for v in once.is_finite(evidence)] == ["worker 2 ended with numbers that are not finite"]


def test_a_contribution_that_is_applied_again_is_found_where_it_happened(evidence: Evidence) -> None:
    once_only = [held(evidence), held(evidence, w1s0=0.5), held(evidence, w1s0=0.5, w2s0=0.5)]
    twice = [*once_only, held(evidence, w1s0=1.0, w2s0=0.5)]
    seen(evidence, *once_only)
    assert list(once.workers_apply_once(evidence)) == []
    evidence.sightings.clear()
    seen(evidence, *twice)
    assert [v.what for v in once.workers_apply_once(evidence)] == [
        "worker 0, bucket 0 had step 0 of worker 1 with weight 0.5, and applied it again: 1"
    ]
    evidence.world = replace(evidence.world, roles=evidence.world.roles._replace(num_servers=1))
    versions(evidence, *twice)
    assert [v.what for v in once.servers_apply_once(evidence)] == [
        "server 0, bucket 0 had step 0 of worker 1 with weight 0.5, and applied it again: 1"
    ]


def test_what_is_of_others_is_found_where_everybody_trains_alone(evidence: Evidence) -> None:
    seen(evidence, held(evidence, w0s0=1.0))
    assert list(once.workers_apply_their_own(evidence)) == []
    seen(evidence, held(evidence), held(evidence, w2s0=0.5))
    assert [v.what for v in once.workers_apply_their_own(evidence)] == ["worker 0 holds steps of others at its step 1"]


def test_contributions_that_count_on_one_server_only_are_found() -> None:
    evidence = run(replace(draw(0, ("ps(servers=2)",)), num_trained=2, faults=Faults()))
    assert list(once.servers_count_alike(evidence)) == []
    second = evidence.world.servers[1]
    held = evidence.simulation.nodes[second].store.replica.params[1]  # type: ignore[attr-defined]
    held[evidence.scenario.book.place(1, 2)] = 9.0
    whole = evidence.final(evidence.world.servers[0])[0][evidence.scenario.book.place(1, 2)]
    assert [v.what for v in once.servers_count_alike(evidence)] == [
        f"step 2 of worker 1 has weight 9 in bucket 1 and {whole:.6g} in bucket 0"
    ]
    evidence.moved = {second}
    assert list(once.servers_count_alike(evidence)) == []


def test_a_moved_server_is_judged_from_when_it_has_its_parameters(evidence: Evidence) -> None:
    evidence.world = replace(evidence.world, roles=evidence.world.roles._replace(num_servers=1))
    empty = np.zeros(evidence.scenario.book.num_elements)
    versions(evidence, empty, held(evidence, w1s0=0.5), held(evidence, w1s0=0.5, w0s0=0.5))
    assert list(once.servers_apply_once(evidence)) == []


def test_a_part_of_a_mean_is_found_where_it_may_not_be(evidence: Evidence) -> None:
    evidence.world = replace(evidence.world, roles=evidence.world.roles._replace(num_servers=1))
    versions(evidence, held(evidence), held(evidence, w0s0=0.2, w1s0=0.4))
    assert len(list(once.servers_apply_means(evidence))) == 1
    assert list(once.servers_apply_means(evidence, may_be_less=True)) == []
    versions(evidence, held(evidence, w0s0=0.2, w1s0=0.4, w0s1=0.4, w1s1=0.8))
    assert len(list(once.servers_apply_means(evidence, may_be_less=True))) == 1


def test_what_is_applied_together_is_a_mean_by_samples(evidence: Evidence) -> None:
    seen(evidence, held(evidence), held(evidence, w0s0=0.25, w1s0=0.5, w2s0=0.25))
    assert list(once.workers_apply_means(evidence)) == []
    seen(evidence, held(evidence, w0s0=0.25, w1s0=0.5, w2s0=0.25, w0s1=0.5, w1s1=0.5))
    assert [v.what for v in once.workers_apply_means(evidence)] == [
        "worker 0, bucket 0 applied step 1 of worker 0 with weight 0.5 rather than 0.333333, its share of the samples "
        "of those present"
    ]
    evidence.world = replace(evidence.world, roles=evidence.world.roles._replace(num_servers=1))
    versions(evidence, held(evidence), held(evidence, w0s0=1.0), held(evidence, w0s0=1.0, w1s0=2.0))
    assert len(list(once.servers_apply_means(evidence))) == 1
