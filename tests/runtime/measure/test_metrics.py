"""What a worker counts of itself."""

import time

import pytest

from weft.core.activity import COMPUTES, READS
from weft.observe.records.status import Mark
from weft.runtime.measure import metrics as module
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.metrics import Metrics
from weft.runtime.measure.off_core import Starving


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now_s)


def test_steps_samples_and_the_last_known_loss_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    metrics = Metrics(3, ActivityClock())
    clock.now_s += 5.0
    metrics.begin()
    metrics.step(4.0, 0.5)
    metrics.step(6.0, None)
    clock.now_s += 2.0
    status = metrics.status("computes")
    assert (status.rank, status.time_s, status.step, status.samples, status.loss) == (3, 2.0, 2, 10.0, 0.5)
    assert (status.doing, status.is_waiting) == ("computes", False)


def test_it_is_due_some_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    metrics = Metrics(0, ActivityClock())
    due = []
    for _ in range(20):
        clock.now_s += module.TELL_EVERY_S / 2 + 1e-6
        due.append(metrics.is_due())
    assert sum(due) == 10


def test_every_step_is_told_once_with_what_the_script_had_done_by_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(Starving, "seconds", lambda self: 0.0)
    activity_clock = ActivityClock()
    metrics = Metrics(0, activity_clock)
    metrics.begin()
    for _ in range(2):
        clock.now_s += 1.0
        activity_clock.turn_to(READS)
        clock.now_s += 0.5
        activity_clock.turn_to(COMPUTES)
        metrics.step(4.0, None)
    clock.now_s += 7.0
    assert metrics.status("computes").marks == [Mark(1, 1.5, 4.0, 1.0, 0.5, 0.0), Mark(2, 3.0, 8.0, 2.0, 1.0, 0.0)]
    assert metrics.status("computes").marks == []


def test_of_very_many_steps_the_last_are_told() -> None:
    metrics = Metrics(0, ActivityClock())
    for _ in range(module.MARKS_MAX + 10):
        metrics.step(1.0, None)
    assert [mark.step for mark in metrics.status("computes").marks] == list(range(11, module.MARKS_MAX + 11))


def test_evaluating_takes_no_processor_time_of_the_training_not_even_while_it_goes_on() -> None:
    metrics = Metrics(0, ActivityClock())
    metrics.begin()
    before = metrics.status("computes").cpu_s
    with metrics.reporting():
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        assert metrics.status("computes").cpu_s < before + 0.02
    assert before <= metrics.status("computes").cpu_s < before + 0.02


def test_serving_others_is_no_slowness_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    metrics = Metrics(0, ActivityClock())
    metrics.begin()
    clock.now_s += 1.0
    for serves in (True, False):
        with metrics.driving(serves=serves):
            clock.now_s += 2.0
        metrics.step(1.0, None)
    first, second = metrics.status("computes").marks
    assert (first.compute_s, second.compute_s) == pytest.approx((1.0, 3.0), rel=0.05)
