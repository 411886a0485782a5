"""Pauses: a process that was stopped is told apart from one that computes, sleeps, blocks or starves."""

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.core.activity import COMPUTES, PAUSED, WAITS
from weft.runtime.measure import activity_clock as clock_module
from weft.runtime.measure import off_core
from weft.runtime.measure import pauses as module
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.pauses import PAUSE_S_MIN, TICK_S, Pauses

STOPPED_S = 0.3


class Machine:
    """What the system tells of a process, moved by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.now_s = 100.0
        self.busy_s = 1.0
        self._account = folder / str(threading.get_native_id()) / "schedstat"
        self._account.parent.mkdir()
        self.account()
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(clock_module.time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(module.time, "process_time", lambda: self.busy_s)
        monkeypatch.setattr(off_core, "THREADS", folder)

    def account(self, starved_s: float = 0.0, num_runs: int = 0) -> None:
        """What stands there so far."""
        self._account.write_text(f"1000 {round(starved_s / 2 * 1e9)} {num_runs}")  # both threads are this one here


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def ticking() -> Pauses:
    pauses = Pauses()
    pauses.begin()
    return pauses


def test_a_tick_that_comes_late_while_nobody_in_the_process_ran_is_a_pause(machine: Machine) -> None:
    pauses = ticking()
    machine.now_s += TICK_S + 0.5
    pauses.check()
    assert pauses.found_s() == pytest.approx(0.5)
    assert pauses.take() == pytest.approx(0.5)
    assert (pauses.found_s(), pauses.take()) == (0.0, 0.0), "it is found once and taken once"


def test_a_tick_that_computing_or_starving_held_up_is_none(machine: Machine) -> None:
    pauses = ticking()
    machine.now_s += 0.5
    machine.busy_s += 0.45
    pauses.check()
    assert pauses.found_s() == 0.0
    machine.now_s += 0.5
    machine.account(starved_s=0.45)
    pauses.check()
    assert pauses.found_s() == 0.0
    machine.now_s += TICK_S + 0.9 * PAUSE_S_MIN
    pauses.check()
    assert pauses.found_s() == 0.0, "what is short is none either"


def test_a_tick_that_had_to_ask_for_the_interpreter_all_the_time_is_none_and_one_that_asked_at_its_end_is(
    machine: Machine,
) -> None:
    pauses = ticking()
    machine.now_s += 0.5
    machine.account(num_runs=round(0.45 / sys.getswitchinterval()))
    pauses.check()
    assert pauses.found_s() == 0.0
    machine.now_s += TICK_S + 0.5
    machine.account(num_runs=round(0.47 / sys.getswitchinterval()))
    pauses.check()
    assert pauses.found_s() == pytest.approx(0.48)


def test_nothing_is_found_before_somebody_ticks(machine: Machine) -> None:
    pauses = Pauses()
    machine.now_s += 5.0
    assert pauses.take() == 0.0
    pauses.begin()
    assert pauses.take() == 0.0


def test_a_pause_is_taken_out_of_what_the_script_did_then_whoever_notices_it(machine: Machine) -> None:
    pauses = ticking()
    activity_clock = ActivityClock(keeps_spans=True, pauses=pauses)
    machine.now_s += TICK_S + 0.5
    activity_clock.turn_to(WAITS)  # the script's thread was first
    pauses.check()
    assert activity_clock.seconds()[PAUSED] == pytest.approx(0.5)
    machine.now_s += TICK_S + 0.25
    pauses.check()  # the thread that ticks was first
    told = activity_clock.seconds()
    assert (told[COMPUTES], told[WAITS], told[PAUSED]) == pytest.approx((TICK_S, TICK_S, 0.75))
    activity_clock.turn_to(COMPUTES)
    assert activity_clock.seconds() == pytest.approx(told)
    assert [activity for activity, _, _ in activity_clock.spans] == [PAUSED, COMPUTES, PAUSED, WAITS]


def test_a_pause_is_no_waiting_of_a_thread_that_was_off_its_core(machine: Machine) -> None:
    pauses = ticking()
    activity_clock = ActivityClock(pauses=pauses)
    machine.now_s += TICK_S + 0.5
    activity_clock.turn_back_to(WAITS, 0.53)
    told = activity_clock.seconds()
    assert (told[COMPUTES], told[WAITS], told[PAUSED]) == pytest.approx((0.02, 0.03, 0.5))


def rest(seconds: float) -> None:
    select.select([], [], [], seconds)


def found_in_a_child(do: Callable[[], object], *, is_stopped: bool = False) -> float:
    """How long a process of its own stood still by its own account, while its script did something."""
    mine, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        pauses = Pauses()

        def tick() -> None:
            pauses.begin()
            while True:
                rest(TICK_S)
                pauses.check()

        threading.Thread(target=tick, daemon=True).start()
        rest(2 * TICK_S)
        os.write(theirs, b"ready\n")
        do()
        os.write(theirs, f"{pauses.take()}\n".encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(mine) as told:
        assert told.readline() == "ready\n"
        if is_stopped:
            os.kill(pid, signal.SIGSTOP)
            rest(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
        found_s = float(told.readline())
    os.waitpid(pid, 0)
    return found_s


def compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


def hold_the_interpreter(seconds: float) -> None:
    """One call that lets no other thread of this process run."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sorted(range(1_000_000, 0, -1))


def block_the_interpreter(seconds: float) -> None:
    """The same in a call that does not compute."""
    ctypes.PyDLL(None).usleep(round(seconds * 1e6))


@pytest.mark.parametrize("do", [compute, hold_the_interpreter, block_the_interpreter, rest])
def test_a_process_that_is_stopped_knows_about_how_long_whatever_it_did(do: Callable[[float], object]) -> None:
    assert PAUSE_S_MIN < found_in_a_child(lambda: do(0.2), is_stopped=True) < STOPPED_S + 0.5


@pytest.mark.clock
@pytest.mark.parametrize("do", [compute, hold_the_interpreter, block_the_interpreter, rest])
def test_a_process_that_computes_or_sleeps_for_long_has_not_stood_still(do: Callable[[float], object]) -> None:
    assert found_in_a_child(lambda: do(0.4)) == 0.0
