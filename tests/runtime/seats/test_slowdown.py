"""Slowed workers: four times slower is four times their own time, whatever they wait for and however sleeps end."""

import time
from pathlib import Path
from random import Random

import pytest
from support.processes.real import real
from support.scripts.training_scripts import write

from weft.core.activity import COMPUTES, READS, WAITS
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.metrics import Metrics
from weft.runtime.measure.off_core import Starving
from weft.runtime.seats.slowdown import Stretching

OVERSLEPT_S = 0.25


class Slowed:
    """A worker whose clock the test moves; its sleeps last longer than asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: float, hiccups: tuple[float, float] = (0.0, 1.0)) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now_s)
        monkeypatch.setattr(time, "sleep", lambda seconds: self.passes(seconds + OVERSLEPT_S))
        monkeypatch.setattr(Starving, "seconds", lambda self: 0.0)
        self.activity_clock = ActivityClock()
        self.metrics = Metrics(0, self.activity_clock)
        self.metrics.begin()
        self.stretching = Stretching(slow, hiccups, Random(0), self.activity_clock, self.metrics)

    def passes(self, seconds: float) -> None:
        self.now_s += seconds

    def iterate(self, times: int = 1) -> None:
        """Read for a second, compute for two, wait for ten."""
        for _ in range(times):
            with self.activity_clock.during(READS):
                self.passes(1.0)
            self.passes(2.0)
            with self.activity_clock.during(WAITS):
                self.passes(10.0)
            self.stretching.stretch()


def test_what_a_worker_computes_and_reads_takes_four_times_as_long_and_what_it_waits_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slowed = Slowed(monkeypatch, 4.0)
    slowed.iterate(10)
    seconds = slowed.activity_clock.seconds()
    assert seconds[WAITS] == pytest.approx(100.0)
    assert 40.0 <= seconds[READS] <= 40.0 + OVERSLEPT_S, "what it oversleeps is taken off the next sleep"
    assert 80.0 <= seconds[COMPUTES] <= 80.0 + OVERSLEPT_S


def test_serving_others_in_the_same_process_is_not_stretched(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch, 4.0)
    with slowed.metrics.driving(serves=True):
        slowed.passes(7.0)
    slowed.iterate()
    assert slowed.now_s == pytest.approx(100.0 + 7.0 + 4 * 3.0 + 10.0 + 2 * OVERSLEPT_S)


def test_a_share_of_all_iterations_has_a_hiccup(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch, 1.0, (0.5, 3.0))
    slowed.iterate(100)
    chance = Random(0)
    num_hiccups = sum(chance.random() < 0.5 for _ in range(100))
    assert slowed.activity_clock.seconds()[COMPUTES] == pytest.approx(200.0 + num_hiccups * 4.0, abs=OVERSLEPT_S)


def test_a_worker_that_is_not_slowed_never_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch, 1.0)
    slowed.iterate(3)
    assert slowed.now_s == pytest.approx(139.0)
    assert not slowed.stretching.is_on


SLEEPS = """
import time
import numpy as np
import weft

w = np.zeros(5)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for rows in worker.share(worker.num_workers * 12, batch_size=1):
    time.sleep(0.02)  # rather than compute: other work on the machine hardly makes it longer
    worker.step({"w": w}, loss=0.0)
"""


@pytest.mark.clock
@pytest.mark.parametrize("strategy", ["ensemble", "ssp"])
def test_a_real_worker_is_four_times_slower_when_asked_for(strategy: str, tmp_path: Path) -> None:
    plain, slowed = real(write(tmp_path, SLEEPS), 2, strategy, slow={1: 4.0}).workers
    assert 3.4 < (slowed.compute_s / slowed.step) / (plain.compute_s / plain.step) < 4.6
