"""5. What workers take of each other cancels out."""

from dataclasses import replace

import pytest

from weft.core.actions import Combine
from weft.core.events import Received
from weft.core.names import INBOX, Buffer
from weft.fuzz.checks import mixing
from weft.fuzz.checks.mixing import MixTaken
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Crash, EarlyFinish, Faults, Join, Rejoin

CRASHES = Faults((Crash(0, 0.2), Crash(3, 0.21)), notice_s=0.02)
JOINS = Faults((Crash(0, 0.1), Rejoin(0, 0.15), Join(3, 0.1)), notice_s=0.02)


def ran(strategy: str, faults: Faults) -> Evidence:
    scenario = next(s for s in (draw(seed, ("gossip",)) for seed in range(99)) if s.num_workers == 6)
    return run(replace(scenario, strategy=strategy, num_trained=1, samples=3 * scenario.samples[:6], faults=faults))


@pytest.fixture
def evidence() -> Evidence:
    return ran("gossip(topology=ring)", Faults())


def change_a_take(evidence: Evidence, scale: float) -> MixTaken:
    """The first take of a body, made larger in the record."""
    for _, _, event, actions in evidence.recording.entries:
        for place, action in enumerate(actions):
            if isinstance(event, Received) and isinstance(action, Combine) and action.add == Buffer(INBOX, 0):
                actions[place] = replace(action, scale=scale * action.scale)  # type: ignore[index]
                return MixTaken(event.clock, 0, -1, event.source, action.scale)
    raise AssertionError("nobody took anything")


def test_what_was_added_to_a_sum_is_taken_when_it_becomes_parameters(evidence: Evidence) -> None:
    senders = {id(message.event): message.sender.id for message in evidence.messages}
    found = mixing.takes(evidence.recording.entries, evidence.simulation.lives, senders)
    num_steps = evidence.scenario.num_steps
    assert len(found) == 2 * 6 * num_steps
    assert {take.weight for take in found} == {1 / 3}
    assert {(take.giver - take.taker) % 6 for take in found} == {1, 5}
    assert {take.clock for take in found} == set(range(num_steps))


def test_a_sum_that_was_begun_anew_has_forgotten_what_was_in_it() -> None:
    sums, params, inbox = Buffer("mix.0", 0), Buffer("params", 0), Buffer(INBOX, 0)
    first, second = (Received(source, "mix", 4, 0, inbox, 1.0, None) for source in (1, 2))
    entries = [
        (0, 0, first, [Combine(sums, 0.0, inbox, 0.5)]),
        (0, 0, second, [Combine(sums, 0.0, inbox, 0.25), Combine(params, 0.0, sums)]),
    ]
    assert mixing.takes(entries, (0, 0), {id(first): 1, id(second): 2}) == [MixTaken(4, 0, 0, 2, 0.25)]


def test_what_two_lives_of_a_worker_have_in_their_sums_is_told_apart() -> None:
    sums, params, inbox = Buffer("mix.0", 0), Buffer("params", 0), Buffer(INBOX, 0)
    first, second = (Received(1, "mix", clock, 0, inbox, 1.0, None) for clock in (4, 6))
    entries = [
        (0, 0, first, [Combine(sums, 0.0, inbox, 0.5)]),
        (0, 0, second, [Combine(sums, 0.0, inbox, 0.25), Combine(params, 0.0, sums)]),
    ]
    assert mixing.takes(entries, (0, 7), {id(first): 1, id(second): 8}) == [MixTaken(6, 0, 7, 8, 0.25)]


@pytest.mark.parametrize(
    ("strategy", "is_applied_first"),
    [
        ("gossip(topology=ring)", False),
        ("gossip(topology=exponential, order=step_first)", True),
        ("gossip_grad", True),
    ],
)
@pytest.mark.parametrize(
    "faults", [Faults(), CRASHES, Faults((EarlyFinish(2, 9),)), JOINS], ids=["calm", "crashes", "finish", "joins"]
)
def test_clean_runs_are_found_clean(strategy: str, is_applied_first: bool, faults: Faults) -> None:
    evidence = ran(strategy, faults)
    assert evidence.error is None
    assert list(mixing.moves_by_what_left(evidence, is_applied_first)) == []
    assert list(mixing.rounds_are_balanced(evidence)) == []


def test_two_who_stay_take_alike_though_others_crash() -> None:
    assert list(mixing.pairs_take_alike(ran("gossip(topology=torus)", CRASHES))) == []


def test_a_total_that_moved_by_more_than_was_taken_is_found(evidence: Evidence) -> None:
    evidence.simulation.nodes[2].store.replica.params[0][0] += 0.5  # type: ignore[attr-defined]
    assert [v.what for v in mixing.moves_by_what_left(evidence, is_applied_first=False)] == [
        "all workers together hold 6.5 of the ground in bucket 0, but 6 was given"
    ]


def test_a_newcomer_that_has_more_than_it_was_given_is_found() -> None:
    evidence = ran("gossip(topology=ring)", JOINS)
    assert [evidence.scenario.owners[life] for life in evidence.workers if life >= 6] == [3, 0]
    given = next(message for _, message in evidence.sponsors)
    first = next(m for m in evidence.welcomes("params", 0) if (m.target, m.view) == (given.target, given.view))
    first.payload[0] -= 0.5
    (violation,) = mixing.moves_by_what_left(evidence, is_applied_first=False)
    assert "of the ground in bucket 0, but" in violation.what


def test_who_gives_more_than_it_takes_is_found_unless_somebody_left(evidence: Evidence) -> None:
    take = change_a_take(evidence, 1.5)
    (violation,) = mixing.rounds_are_balanced(evidence)
    assert violation.what == f"in rounds [{take.clock}] somebody gave more than it took, though nobody had left them"
    (violation,) = mixing.pairs_take_alike(evidence)
    assert violation.what.startswith(f"in round {take.clock} worker ")
    assert "took 0.5 of worker" in violation.what or "took 0.333333 of worker" in violation.what
