"""7. Fencing."""

from dataclasses import replace

import pytest

from weft.core.events import MembersChanged, Received, Started
from weft.fuzz.checks.fencing import hears_members_only, takes_nothing_from_the_fenced
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Faults, Pause


@pytest.fixture
def evidence() -> Evidence:
    """Worker 1 stands still for too long, wakes up and runs on for a while."""
    scenario = next(s for s in (draw(seed, ("async_gossip",)) for seed in range(99)) if s.num_workers == 4)
    return run(replace(scenario, faults=Faults((Pause(1, 0.05, 0.2),), notice_s=0.2, fence_s=0.1)))


def test_a_clean_run_keeps_both(evidence: Evidence) -> None:
    assert evidence.lost == {1}
    assert list(hears_members_only(evidence)) == list(takes_nothing_from_the_fenced(evidence)) == []


def test_who_hears_from_the_fenced_is_named(evidence: Evidence) -> None:
    stranger = Received(1, "offer", 9, 0, None, 1.0, None)
    evidence.recording.entries.append((10**12, 0, stranger, ()))
    violations = list(hears_members_only(evidence))
    assert [violation.what for violation in violations] == [
        "worker 0 received 'offer' from worker 1, which is not of its view, at 1000.000000 s"
    ]


def test_a_view_with_two_memberships_is_found(evidence: Evidence) -> None:
    place = next(i for i, entry in enumerate(evidence.recording.entries) if type(entry[2]).__name__ == "MembersChanged")
    now_ns, node, event, actions = evidence.recording.entries[place]
    evidence.recording.entries.append((now_ns, node, replace(event, members=(0,)), actions))  # type: ignore[arg-type]
    assert [violation.invariant for violation in hears_members_only(evidence)] == [7]


def test_what_a_zombie_computed_is_found_in_a_replica(evidence: Evidence) -> None:
    late = next(step for step in evidence.steps if evidence.is_out(step.worker, step.at_ns))
    views = evidence.views
    del views[2:]  # before anybody had finished
    store = evidence.simulation.nodes[2].store
    place = evidence.scenario.book.place(late.worker, late.step)
    store.replica.params[0][place] = 0.1  # type: ignore[attr-defined]
    assert [v.what for v in takes_nothing_from_the_fenced(evidence)] == [
        "worker 2 holds a gradient of a worker that was already out"
    ]


def test_who_has_not_heard_yet_that_a_worker_is_out_may_take_from_it(evidence: Evidence) -> None:
    late = next(step for step in evidence.steps if evidence.is_out(step.worker, step.at_ns))
    views = evidence.views
    del views[2:]
    store = evidence.simulation.nodes[2].store
    store.replica.params[0][evidence.scenario.book.place(late.worker, late.step)] = 0.1  # type: ignore[attr-defined]
    news = MembersChanged(views[1].number, views[1].members, "fenced worker 1")
    evidence.recording.entries.append((10**12, 2, news, ()))
    assert list(takes_nothing_from_the_fenced(evidence)) == []


def test_a_moved_server_starts_with_everybody_as_members(evidence: Evidence) -> None:
    evidence.recording.entries.append((10**12, 0, Started(5), ()))
    evidence.recording.entries.append((10**12, 0, Received(1, "offer", 9, 0, None, 1.0, None), ()))
    assert list(hears_members_only(evidence)) == []
