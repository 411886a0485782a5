"""2. Pushes that are applied alone count by their share."""

from dataclasses import replace

import pytest

from weft.core.actions import Apply, Send
from weft.core.events import Event, MembersChanged, Received, Started
from weft.core.names import INBOX, PARAMS, Buffer
from weft.fuzz.checks.shares import follow_from_whole_steps
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw

SERVER = 2


@pytest.fixture
def evidence() -> Evidence:
    """Two workers and a server; what it was told is made up by each test."""
    scenario = next(s for s in (draw(seed, ("ssp(servers=1)",)) for seed in range(99)) if s.num_workers == 2)
    evidence = run(replace(scenario, compress=None))
    evidence.recording.entries[:] = [(0, SERVER, Started(0), [])]
    return evidence


def push(evidence: Evidence, worker: int, step: int, samples: float, scale: float | None) -> None:
    """A worker's push, applied by this scale or not at all."""
    applied = [] if scale is None else [Apply(Buffer(INBOX, 0), Buffer(PARAMS, 0), scale=scale)]
    answer = Send(worker, "params", 0, 0)
    event = Received(worker, "push", step, 0, Buffer(INBOX, 0), samples, None)
    evidence.recording.entries.append((1, SERVER, event, [*applied, answer]))


def tell(evidence: Evidence, event: Event) -> None:
    evidence.recording.entries.append((1, SERVER, event, []))


def found(evidence: Evidence, is_damped: bool = False) -> list[str]:
    return [violation.what for violation in follow_from_whole_steps(evidence, is_damped)]


def test_shares_are_equal_until_a_step_is_whole_and_then_by_its_samples(evidence: Evidence) -> None:
    push(evidence, 0, 0, 3.0, 1 / 2)
    push(evidence, 0, 1, 1.0, 1 / 2)
    push(evidence, 1, 0, 5.0, 5 / 8)
    push(evidence, 0, 2, 2.0, 2 / 8)
    push(evidence, 0, 2, 2.0, None)
    assert found(evidence) == []
    push(evidence, 1, 1, 3.0, 3 / 8)
    assert found(evidence) == [
        "server 0, bucket 0, applied step 1 of worker 1 with weight 0.375, but its 3 samples are of 4"
    ]


def test_what_is_damped_counts_a_whole_number_of_times_less(evidence: Evidence) -> None:
    push(evidence, 0, 0, 3.0, 1 / 6)
    assert found(evidence, is_damped=True) == []
    assert len(found(evidence)) == 1
    push(evidence, 1, 0, 5.0, 0.4)
    assert len(found(evidence, is_damped=True)) == 1


def test_a_moved_server_has_no_step_whole_of_which_another_took_a_part(evidence: Evidence) -> None:
    tell(evidence, Started(1))
    push(evidence, 0, 4, 3.0, 3 / 3)
    assert found(evidence) == [
        "server 0, bucket 0, applied step 4 of worker 0 with weight 1, but its 3 samples are of 6"
    ]


def test_who_has_left_is_not_waited_for(evidence: Evidence) -> None:
    push(evidence, 0, 0, 3.0, 1 / 2)
    tell(evidence, MembersChanged(1, (0, SERVER), "lost"))
    push(evidence, 0, 1, 6.0, 1.0)
    assert found(evidence) == []


def came(evidence: Evidence, view: int, first: int) -> None:
    """Worker 1 is lost, and another comes in its place that begins with this step."""
    evidence.first_steps = {(1, view): first}
    tell(evidence, MembersChanged(view - 1, (0, SERVER), "lost"))
    tell(evidence, MembersChanged(view, (0, 1, SERVER), "joined"))


def test_a_newcomer_is_waited_for_from_its_first_step_on_though_its_predecessor_had_pushed_it(
    evidence: Evidence,
) -> None:
    for step in range(3):
        push(evidence, 1, step, 5.0, 1 / 2)
    came(evidence, 2, first=1)
    push(evidence, 0, 0, 3.0, 3 / 8)
    push(evidence, 0, 1, 3.0, 3 / 8)
    push(evidence, 1, 1, 1.0, 1 / 4)
    assert found(evidence) == []
    push(evidence, 0, 2, 3.0, 3 / 8)
    assert found(evidence) == [
        "server 0, bucket 0, applied step 2 of worker 0 with weight 0.375, but its 3 samples are of 4"
    ]


def test_who_came_and_left_again_before_it_began_changes_nothing(evidence: Evidence) -> None:
    push(evidence, 1, 0, 5.0, 1 / 2)
    came(evidence, 2, first=0)
    evidence.first_steps = {}
    tell(evidence, MembersChanged(3, (0, SERVER), "lost"))
    push(evidence, 0, 0, 3.0, 3 / 8)
    assert found(evidence) == []


def test_a_moved_server_has_no_step_whole_without_those_who_came_before_it(evidence: Evidence) -> None:
    came(evidence, 2, first=7)
    tell(evidence, Started(3))
    tell(evidence, MembersChanged(3, (0, 1, SERVER), "moved"))
    push(evidence, 0, 6, 3.0, 1 / 2)
    assert found(evidence) == []


def test_steps_before_a_newcomers_first_are_whole_without_it(evidence: Evidence) -> None:
    came(evidence, 2, first=5)
    push(evidence, 0, 4, 3.0, 1.0)
    push(evidence, 0, 5, 6.0, 2.0)
    assert found(evidence) == []
