"""Pauses: they spin, yield, then sleep until something comes, and their time is counted."""

import os
import time
from types import SimpleNamespace
from typing import cast

import pytest
from support.processes.one_host import Host

from weft.core.activity import COMPUTES, REPORTS, WAITS
from weft.core.names import Bucket
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.waiting import ALONE_S, LOOKS, SWITCH_S_MAX, SWITCH_S_MIN, YIELDS, Waiting
from weft.transports.bells import SCRIPT


def never() -> bool:
    return False


def test_a_thread_with_a_core_of_its_own_spins_before_it_sleeps() -> None:
    reading, writing = os.pipe()
    waiting = Waiting([reading], ActivityClock(), owns_core=True, spin_s=60.0)
    for _ in range(100):
        waiting.pause(never)
        assert not waiting.has_slept
    os.close(reading)
    os.close(writing)


def test_a_thread_that_shares_its_core_yields_a_few_times_before_it_sleeps() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"news")
    waiting = Waiting([reading], ActivityClock())
    slept = []
    for _ in range(YIELDS + 1):
        waiting.pause(never)
        slept.append(waiting.has_slept)
    assert slept == [False] * YIELDS + [True]
    waiting.resume()
    waiting.pause(never)
    assert not waiting.has_slept, "after news it yields again"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("owns_core", [True, False])
def test_one_pause_looks_a_few_times_and_ends_with_the_first_look_that_finds_something(owns_core: bool) -> None:
    looks: list[bool] = []

    def look(at: int) -> bool:
        looks.append(len(looks) + 1 == at)
        return looks[-1]

    waiting = Waiting([], ActivityClock(), owns_core=owns_core, spin_s=60.0)
    waiting.pause(never, None, lambda: look(0))
    assert looks == [False] * LOOKS
    looks.clear()
    waiting.pause(never, None, lambda: look(3))
    assert looks == [False, False, True]


class Core:
    """A core that others have for `took_s` whenever the thread yields; its clock stands still otherwise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.took_s, self.num_yields = 0.0, 0.0, 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(os, "sched_yield", self.take)
        clock = SimpleNamespace(turn_to=lambda activity: WAITS)
        self.waiting = Waiting([], cast("ActivityClock", clock), owns_core=True, spin_s=0.5)

    def take(self) -> None:
        self.num_yields += 1
        self.now_s += self.took_s

    def yields_at_once(self) -> bool:
        """Whether the thread yields as soon as it begins to wait."""
        self.waiting.resume()
        before = self.num_yields
        self.waiting.pause(never, None, never)
        return self.num_yields > before


def test_who_spins_long_yields_to_the_worker_it_may_share_its_core_with(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(monkeypatch)
    assert not core.yields_at_once()
    core.now_s = ALONE_S
    core.waiting.pause(never, None, never)
    assert core.num_yields == LOOKS
    core.now_s = 0.6
    core.waiting.pause(never, 0.0, never)
    assert core.waiting.has_slept


@pytest.mark.parametrize(
    ("took_s", "is_worker"), [(SWITCH_S_MIN / 2, False), (10 * SWITCH_S_MIN, True), (10 * SWITCH_S_MAX, False)]
)
def test_a_core_is_yielded_at_once_while_yielding_lets_another_worker_do_its_part(
    took_s: float, is_worker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core(monkeypatch)
    assert not core.yields_at_once()
    core.now_s, core.took_s = ALONE_S, took_s
    core.waiting.pause(never, None, never)
    assert core.yields_at_once() == is_worker
    core.took_s = 0.0
    core.yields_at_once()
    assert not core.yields_at_once(), "the core is its own again"


def test_who_sleeps_can_be_woken_by_a_bell_and_looks_for_news_once_more_before() -> None:
    host = Host(2, (Bucket(1),))
    waiting = Waiting([], ActivityClock(), host.bells[0])
    heard = []

    def ring_in_time() -> bool:
        host.bells[1].ring(0, SCRIPT)  # it listens already, so this is not lost
        heard.append(host.arenas[1].words[host.arenas[0].sleeping_line(0) + SCRIPT])
        return False

    while not waiting.has_slept:
        waiting.pause(ring_in_time)
    assert heard == [1]
    assert host.arenas[0].words[host.arenas[0].sleeping_line(0) + SCRIPT] == 0
    host.close()


def test_the_activity_clock_has_the_time_from_the_first_pause_to_the_next_news_as_waiting() -> None:
    activity_clock = ActivityClock()
    waiting = Waiting([], activity_clock)
    activity_clock.turn_to(REPORTS)
    waiting.resume()
    assert activity_clock.seconds()[WAITS] == 0.0
    waiting.pause(never)
    waiting.resume()
    assert activity_clock.seconds()[WAITS] > 0.0
    assert activity_clock.turn_to(COMPUTES) == REPORTS, "it goes on with what it did before"
