"""A script that stays in one place is told of, with its stack, unless it waits for other workers there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from weft.core.activity import COMPUTES, REPORTS, WAITS
from weft.core.errors import TransportError
from weft.runtime.measure import script_watch
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.script_watch import STAYS_S, TELL_EVERY_S, ScriptWatch, stack_of


def watched(told: list[float], is_over: Callable[[], bool] = lambda: True) -> tuple[ScriptWatch, ActivityClock]:
    activity_clock = ActivityClock()
    return ScriptWatch(activity_clock, lambda seconds, stack: told.append(seconds), is_over), activity_clock


def test_a_script_that_does_one_thing_for_long_is_told_of_again_and_again() -> None:
    told: list[float] = []
    watch, activity_clock = watched(told)
    _, since_s = activity_clock.current
    for tick in range(int(STAYS_S + 2 * TELL_EVERY_S) + 1):
        watch.look(since_s + tick)
    assert told == [STAYS_S, STAYS_S + TELL_EVERY_S, STAYS_S + 2 * TELL_EVERY_S]


@pytest.mark.parametrize("activity", [COMPUTES, REPORTS])
def test_a_script_that_turns_to_something_else_begins_anew(activity: str) -> None:
    told: list[float] = []
    watch, activity_clock = watched(told)
    watch.look(activity_clock.current[1] + STAYS_S)
    activity_clock.turn_to(activity)
    watch.look(activity_clock.current[1] + STAYS_S - 0.1)
    assert told == [STAYS_S]
    watch.look(activity_clock.current[1] + STAYS_S)
    assert told == [STAYS_S, pytest.approx(STAYS_S)]


def test_a_script_that_waits_for_others_is_not_told_of() -> None:
    told: list[float] = []
    watch, activity_clock = watched(told)
    activity_clock.turn_to(WAITS)
    watch.look(activity_clock.current[1] + 10 * STAYS_S)
    assert told == []


def test_who_is_gone_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_watch, "STAYS_S", 0.0)
    monkeypatch.setattr(script_watch, "LOOK_S", 0.0)
    tried = threading.Event()

    def tell(seconds: float, stack: str) -> None:
        tried.set()
        raise TransportError("the other end of a channel is gone.")

    watch = ScriptWatch(ActivityClock(), tell, lambda: False)
    watch._run()  # returns
    assert tried.is_set()


@contextmanager
def thread_that_waits(depth: int) -> Iterator[int]:
    """A thread that is so deep in calls when it waits for the end of this; its number."""
    ready, over = threading.Event(), threading.Event()

    def wait_deep_down(left: int) -> None:
        if left:
            wait_deep_down(left - 1)
        else:
            ready.set()
            over.wait()

    thread = threading.Thread(target=wait_deep_down, args=(depth,))
    thread.start()
    ready.wait()
    try:
        assert thread.ident is not None
        yield thread.ident
    finally:
        over.set()
        thread.join()


def test_a_stack_is_shown_as_in_a_traceback_with_its_innermost_places_last() -> None:
    with thread_that_waits(2) as thread:
        lines = stack_of(thread).splitlines()
    assert [line.strip() for line in lines if "wait_deep_down(" in line or "over.wait" in line] == [
        *["wait_deep_down(left - 1)"] * 2,
        "over.wait()",
    ]
    with thread_that_waits(100) as thread:
        assert len(stack_of(thread)) <= script_watch.CHARACTERS_MAX
    assert stack_of(0) == ""
