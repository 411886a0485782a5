"""5 and 6. Mass is conserved."""

from dataclasses import replace

import pytest

from weft.core.names import Buffer
from weft.fuzz.checks import conservation
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.in_flight import OPEN
from weft.sim.faults.plan import Crash, Faults, Rejoin


def ran(name: str, faults: Faults) -> Evidence:
    scenario = next(s for s in (draw(seed, (name,)) for seed in range(99)) if s.num_workers == 4)
    return run(replace(scenario, num_trained=1, faults=faults))


@pytest.fixture
def evidence() -> Evidence:
    return ran("async_gossip", Faults())


def test_a_total_that_changed_is_found(evidence: Evidence) -> None:
    assert list(conservation.total_is_conserved(evidence, "params", {})) == []
    replica = evidence.simulation.nodes[2].store.replica  # type: ignore[attr-defined]
    replica.params[0][0] += 0.5
    assert [v.what for v in conservation.total_is_conserved(evidence, "params", {})] == [
        "all workers together hold 4.5 of the ground in bucket 0 of 'params', but 4 was put in"
    ]
    replica.params[0][0] -= 0.5
    replica.params[0][evidence.scenario.book.place(1, 3)] -= 0.25
    (violation,) = conservation.total_is_conserved(evidence, "params", {})
    assert violation.what.startswith("all workers together hold 0.75 of step 3 of worker 1")


@pytest.mark.slow
def test_messages_that_were_lost_with_their_sender_count() -> None:
    with_answers = {"answer": -1.0}
    for seed in range(40):
        scenario = replace(draw(seed, ("async_gossip",)), faults=Faults((Crash(0, 0.15), Crash(1, 0.2)), notice_s=0.02))
        if scenario.num_workers < 4:
            continue
        evidence = run(scenario)
        lost = [message for message in evidence.messages if message.fate is OPEN and message.event.kind == "answer"]
        assert list(conservation.total_is_conserved(evidence, "params", with_answers)) == []
        if any(message.payload.any() for message in lost):
            assert len(list(conservation.total_is_conserved(evidence, "params", {}))) == 1
            return
    raise AssertionError("no seed lost an answer with its sender")


def test_weights_of_an_average_that_do_not_add_up_are_found(evidence: Evidence) -> None:
    assert list(conservation.ground_is_kept(evidence)) == []
    sighting = evidence.sightings[3]
    sighting.params[0][0] = 0.9
    assert [v.what for v in conservation.ground_is_kept(evidence)] == [
        f"worker {sighting.worker} began step {sighting.step} with 0.9 of its ground in bucket 0: "
        "the weights of an average did not add up to 1"
    ]


def test_what_the_shared_replica_lost_is_found() -> None:
    evidence = ran("hogwild", Faults())
    assert list(conservation.shared_replica_adds_up(evidence)) == []
    replica = evidence.simulation.nodes[3].store.replica  # type: ignore[attr-defined]
    replica.params[0][evidence.scenario.book.place(1, 2)] = 0.0
    assert [v.what for v in conservation.shared_replica_adds_up(evidence)] == [
        "the shared replica holds 0 of step 2 of worker 1 in bucket 0"
    ]


def test_what_accrues_is_sent_or_kept_once() -> None:
    evidence = ran("downpour(push=3, fetch=2)", Faults())
    check = conservation.accrued_is_sent_once
    assert list(check(evidence, "downpour.accrued", "push")) == []
    sent = [
        message
        for message in evidence.messages
        if message.event.kind == "push" and message.sender.id not in evidence.lost
    ]
    sent[0].payload *= 2
    (violation,) = check(evidence, "downpour.accrued", "push")
    assert violation.what.startswith(f"worker {sent[0].sender.id} sent or kept 2 of its step 0")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_centre_that_does_not_take_what_pulls_the_workers_is_found(mode: str) -> None:
    evidence = ran(f"easgd(period=2, mode={mode})", Faults())
    assert list(conservation.elastic_total_is_conserved(evidence)) == []
    last = max(evidence.steps, key=lambda step: step.step).worker
    centre = Buffer("centre", 0) if mode == "sync" else Buffer("params", 0)
    evidence.slot(last if mode == "sync" else 4, centre)[0] += 0.5
    assert [v.what for v in conservation.elastic_total_is_conserved(evidence)] == [
        "all workers together hold 4.5 of the ground in bucket 0 of 'params', but 4 was put in"
    ]


def test_a_centre_that_was_lost_with_its_server_is_not_missed() -> None:
    evidence = ran("easgd(period=2, mode=async)", Faults((Crash(0, 0.15),), notice_s=0.02))
    assert any(version.incarnation for version in evidence.simulation.versions)
    evidence.slot(4, Buffer("params", 0))[0] += 0.5
    assert list(conservation.elastic_total_is_conserved(evidence)) == []


def test_mass_that_is_made_for_a_newcomer_is_found_and_what_it_was_given_away_is_not() -> None:
    scenario = next(s for s in (draw(seed, ("push_sum",)) for seed in range(99)) if s.num_workers == 4)
    faults = Faults((Crash(2, 0.1), Rejoin(2, 0.2)), notice_s=0.02)
    evidence = run(replace(scenario, num_trained=1, samples=2 * scenario.samples, faults=faults))
    assert [life for life, _ in evidence.sponsors] == [4]
    given_away, copied = (
        list(conservation.total_is_conserved(evidence, "push_sum.mass", {"share": 1.0}, is_given_away=is_given_away))
        for is_given_away in (True, False)
    )
    assert given_away == []
    assert len(copied) == 1
