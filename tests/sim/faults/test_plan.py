"""Faults are plain data."""

from typing import get_args

from weft.sim.faults.plan import (
    JOINS,
    KINDS,
    Crash,
    EarlyFinish,
    Fault,
    Faults,
    NonFiniteGradient,
    Pause,
    Skew,
    Slow,
    Spike,
)


def test_a_schedule_is_plain_data_that_prints_as_what_would_build_it_again() -> None:
    assert repr((Crash(1, 0.5), Pause(2, 1.0, 0.25))) == (
        "(Crash(worker=1, at_s=0.5), Pause(worker=2, at_s=1.0, duration_s=0.25))"
    )
    assert {kind.__name__ for kind in (*KINDS, *JOINS)} == {kind.__name__ for kind in get_args(Fault)}


def test_faults_are_over_when_the_last_has_ended_and_the_engine_has_had_time_to_notice() -> None:
    schedule = (Crash(0, 3.0), Pause(1, 1.0, 4.0), Skew(0, 99.0, 1.0), NonFiniteGradient(0, 99), EarlyFinish(1, 99))
    assert Faults(schedule, notice_s=0.5, fence_s=2.0, linger_s=0.25).over_s == 5.0 + 2.0 + 2 * 0.5 + 0.25
    assert Faults(notice_s=0.5, fence_s=2.0, linger_s=0.25).over_s == 3.25


def test_a_window_is_active_from_its_begin_until_before_its_end() -> None:
    first, second = Slow(0, 1.0, 2.0, 3.0), Slow(1, 2.0, 2.0, 3.0)
    faults = Faults((first, Spike(1.0, 9.0, 0.1), second))
    assert [faults.active(Slow, now_s) for now_s in (0.5, 1.0, 2.5, 3.0)] == [[], [first], [first, second], [second]]
