"""Measures the simulator."""

import pytest

from weft.bench import simulator
from weft.bench.simulator import ghost_simulation, measure_simulator
from weft.core.recorder import TraceHash


def test_a_report_has_a_row_for_each_world_with_and_without_the_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "WORLDS", {"small": ("gossip(topology=torus)", 4, 3)})
    report = measure_simulator(2)
    assert report["benchmark"] == "simulator"
    assert [(row["world"], row["recorder"], row["bar"]) for row in report["rows"]] == [
        ("small", "off", 200_000),
        ("small", "on", 100_000),
    ]
    for row in report["rows"]:
        assert 0 < row["low"] <= row["events_per_s"] <= row["high"]
        assert row["events"] > 4 * 3


def test_the_worlds_run_to_their_end_and_repeat() -> None:
    recorders = [TraceHash(), TraceHash()]
    facts = [ghost_simulation("ssp", 4, 5, recorder).run() for recorder in recorders]
    assert facts[0].steps == facts[1].steps == [5] * 4
    assert recorders[0].hexdigest() == recorders[1].hexdigest()
