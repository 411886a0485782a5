"""A activity clock: at any time the script does one thing, and the times of all things add up."""

import pytest

from weft.core.activity import COMPUTES, READS, REPORTS, WAITS
from weft.runtime.measure import activity_clock as module
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.off_core import Starving


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_times_of_all_activities_add_up_to_the_time_since_the_beginning(clock: Clock) -> None:
    activity_clock = ActivityClock()
    clock.now_s += 7.0
    activity_clock.begin()
    clock.now_s += 1.0
    assert activity_clock.turn_to(READS) == COMPUTES
    clock.now_s += 2.0
    assert activity_clock.turn_to(WAITS) == READS
    clock.now_s += 4.0
    told = {name: seconds for name, seconds in activity_clock.seconds().items() if seconds}
    assert told == {COMPUTES: 1.0, READS: 2.0, WAITS: 4.0}, "what goes on counts up to now"


def test_what_happens_in_between_is_followed_by_what_was_done_before(clock: Clock) -> None:
    activity_clock = ActivityClock(keeps_spans=True)
    clock.now_s += 1.0
    with activity_clock.during(REPORTS):
        clock.now_s += 1.0
    clock.now_s += 1.0
    activity_clock.turn_to(WAITS)
    assert activity_clock.spans == [(COMPUTES, 100.0, 101.0), (REPORTS, 101.0, 102.0), (COMPUTES, 102.0, 103.0)]


def test_time_can_be_called_waiting_afterwards_but_no_more_than_there_was(clock: Clock) -> None:
    activity_clock = ActivityClock(keeps_spans=True)
    clock.now_s += 3.0
    activity_clock.turn_back_to(WAITS, 1.0)
    clock.now_s += 1.0
    activity_clock.turn_back_to(WAITS, 5.0)
    assert activity_clock.spans == [(COMPUTES, 100.0, 102.0), (WAITS, 102.0, 103.0), (WAITS, 103.0, 104.0)]
    assert (activity_clock.seconds()[COMPUTES], activity_clock.seconds()[WAITS]) == (2.0, 2.0)


def test_spans_are_kept_only_if_asked_for(clock: Clock) -> None:
    activity_clock = ActivityClock()
    clock.now_s += 1.0
    activity_clock.turn_to(WAITS)
    assert activity_clock.spans == []


def test_time_in_which_the_script_was_ready_and_had_no_core_is_not_its_own(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    starved = [5.0]
    monkeypatch.setattr(Starving, "seconds", lambda self: starved[0])
    activity_clock = ActivityClock()
    clock.now_s += 1.0
    starved[0] += 0.25
    activity_clock.turn_to(READS)
    clock.now_s += 1.0
    assert (activity_clock.own_seconds()[COMPUTES], activity_clock.own_seconds()[READS]) == (0.75, 1.0)
    starved[0] += 0.5
    assert activity_clock.own_seconds()[READS] == 0.5
    activity_clock.turn_to(COMPUTES)
    assert (activity_clock.own_seconds()[READS], activity_clock.seconds()[READS]) == (0.5, 1.0)


def test_who_starves_in_a_short_moment_is_looked_up_with_the_next_that_is_longer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(Starving, "seconds", lambda self: looks.append(1) or 0.0)
    activity_clock = ActivityClock()
    clock.now_s += module.STARVING_S_MIN / 2
    activity_clock.turn_to(READS)
    assert len(looks) == 1, "once at the beginning"
    clock.now_s += module.STARVING_S_MIN * 2
    activity_clock.turn_to(COMPUTES)
    assert len(looks) == 2
