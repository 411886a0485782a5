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
from weft.sim.faults.plan import Crash, EarlyFinish, Faults

CRASHES = Faults((Crash(0, 0.2), Crash(3, 0.21)), notice_s=0.02)


def ran(strategy: str, faults: Faults) -> Evidence:
    scenario = next(s for s in (draw(seed, ("gossip",)) for seed in range(99)) if s.num_workers == 6)
    return run(replace(scenario, strategy=strategy, num_trained=1, faults=faults))


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
    found = mixing.takes(evidence.recording.entries)
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
    assert mixing.takes(entries) == [MixTaken(4, 0, 0, 2, 0.25)]


@pytest.mark.parametrize(
    ("strategy", "is_applied_first"),
    [
        ("gossip(topology=ring)", False),
        ("gossip(topology=exponential, order=step_first)", True),
        ("gossip_grad", True),
    ],
)
@pytest.mark.parametrize("faults", [Faults(), CRASHES, Faults((EarlyFinish(2, 9),))], ids=["calm", "crashes", "finish"])
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


def test_who_gives_more_than_it_takes_is_found_unless_somebody_left(evidence: Evidence) -> None:
    take = change_a_take(evidence, 1.5)
    (violation,) = mixing.rounds_are_balanced(evidence)
    assert violation.what == f"in rounds [{take.clock}] somebody gave more than it took, though nobody had left them"
    (violation,) = mixing.pairs_take_alike(evidence)
    assert violation.what.startswith(f"in round {take.clock} worker ")
    assert "took 0.5 of worker" in violation.what or "took 0.333333 of worker" in violation.what
