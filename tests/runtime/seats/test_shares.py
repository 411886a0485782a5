"""What a worker asks its engine about its shares, and what it tells for that."""

from typing import Any

import pytest
from msgspec.structs import replace
from support.processes.records import job_with

from weft.core.activity import READS, WAITS
from weft.runtime.measure import activity_clock as clock
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.messages import (
    FractionsAsked,
    FractionsTold,
    PortionRequested,
    PortionTold,
    ThroughputMeasured,
)
from weft.runtime.seats.shares import EngineShares

JOB = job_with(block_steps=8)


class Asked:
    """The shares of a worker, what it said, and a clock that stands still unless it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, share: str, *answers: Any) -> None:
        self.now = 0.0
        monkeypatch.setattr(clock.time, "perf_counter", lambda: self.now)
        self.said: list[Any] = []
        self.answers = list(answers)
        self.activity_clock = ActivityClock()
        self.shares = EngineShares(replace(JOB, share=share), self.said.append, self.expect, self.activity_clock)

    def expect(self, kind: type[Any]) -> Any:
        answer = self.answers.pop(0)
        assert isinstance(answer, kind)
        return answer

    def step(self, samples: float, seconds: float) -> None:
        self.now += seconds
        self.shares.step(samples)


def test_own_time_is_computing_and_reading_but_not_waiting_and_is_told_with_every_other_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(monkeypatch, "proportional", FractionsTold([0.25, 0.75]))
    asked.step(16.0, 2.0)
    with asked.activity_clock.during(WAITS):
        asked.now += 5.0
    with asked.activity_clock.during(READS):
        asked.now += 1.0
    asked.step(8.0, 0.5)
    assert asked.said == [ThroughputMeasured(2, 24.0, 3.5)]
    asked.step(8.0, 0.5)
    assert asked.shares.fractions(1, 64, 4) == [0.25, 0.75]
    assert asked.said[1:] == [FractionsAsked(1, 64, 4, ThroughputMeasured(3, 32.0, 4.0))]


@pytest.mark.parametrize(
    ("share", "block_steps", "steals"), [("static", None, False), ("proportional", 8, False), ("stealing", None, True)]
)
def test_only_proportional_shares_are_measured(
    monkeypatch: pytest.MonkeyPatch, share: str, block_steps: int | None, steals: bool
) -> None:
    asked = Asked(monkeypatch, share)
    for _ in range(8):
        asked.step(16.0, 1.0)
    assert (asked.shares.block_steps, asked.shares.steals) == (block_steps, steals)
    assert len(asked.said) == (4 if share == "proportional" else 0)


def test_a_worker_that_steals_asks_for_one_portion_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, "stealing", PortionTold(3), PortionTold(None))
    assert [asked.shares.portion(64, 2, 4), asked.shares.portion(64, 2, 4)] == [3, None]
    assert asked.said == [PortionRequested(2, 64, 4)] * 2
