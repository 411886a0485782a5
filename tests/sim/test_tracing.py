"""Traces of simulated runs: in virtual time, and without a trace of the tracing."""

from pathlib import Path
from typing import Any

import pytest
from support.oracles.traces import Trace
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, write

from weft.config.cluster import load_cluster
from weft.config.registry import STRATEGIES
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome
from weft.engines.simulated.runner import simulate, simulate_dry
from weft.engines.simulated.world_run import SimulationObserver
from weft.observe.logs.trace import write_trace

NUM_WORKERS = 4
RUNS = {"wet": simulate, "dry": simulate_dry}
FITTING = [name for name in STRATEGIES if name not in ("hogwild", "population")]
"""Those that need neither one host nor something to tune."""


def ran(folder: Path, strategy: str, way: str = "wet", **options: Any) -> Outcome:
    script = write(folder, ARRAYS, ARRAYS_TRAIN)
    job = SimulatedJob(
        script=script, arguments=(), cluster=load_cluster("edge"), num_workers=NUM_WORKERS, strategy=strategy, **options
    )
    return RUNS[way](job, SimulationObserver(lambda line: None))


def drawn(folder: Path, outcome: Outcome) -> Trace:
    assert outcome.facts.tracks is not None
    write_trace(folder / "trace.json", outcome.facts.tracks, {})
    return Trace(folder / "trace.json")


@pytest.mark.parametrize("way", RUNS)
@pytest.mark.parametrize("strategy", FITTING)
def test_a_traced_run_is_the_same_run_and_every_message_has_an_arrow(strategy: str, way: str, tmp_path: Path) -> None:
    plain, traced = (ran(tmp_path, strategy, way, traces=traces) for traces in (False, True))
    assert traced.trace == plain.trace
    told, expected = traced.to_json(), plain.to_json()
    assert (expected.pop("timeline"), len(told.pop("timeline"))) == (None, NUM_WORKERS)
    assert told == expected
    trace = drawn(tmp_path, traced)
    assert trace.about == {"records_dropped": 0, "messages_with_one_end": 0}
    lanes = trace.lanes()
    for worker in range(NUM_WORKERS):
        script = lanes[f"worker {worker}", "script"]
        computing_s = sum(event["dur"] for event in script if event["name"] == "compute") / 1e6
        assert computing_s == pytest.approx(traced.facts.compute_s[worker])
        assert sum(event["dur"] for event in script) / 1e6 == pytest.approx(traced.facts.finished_s[worker])


def test_bytes_of_messages_are_all_that_was_sent(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "ssp", traces=True)
    trace = drawn(tmp_path, outcome)
    assert sum(arrow["args"]["bytes"] for _, _, arrow in trace.arrows()) == outcome.facts.bytes_sent
    assert ("worker 0", "server 0") in trace.lanes()


def test_a_native_reduction_lasts_from_a_workers_contribution_to_the_result(tmp_path: Path) -> None:
    outcome = ran(tmp_path, "allreduce", traces=True, steps_max=2)
    began = drawn(tmp_path, outcome).of("b")
    ended = drawn(tmp_path, outcome).of("e")
    assert len(began) == 2 * NUM_WORKERS
    assert len({event["ts"] for event in ended}) == 2, "the members get a result together"
    assert began[0]["args"]["clock"] == 0


def test_steps_are_numbered_and_a_worker_waits_when_it_does_not_compute(tmp_path: Path) -> None:
    script = drawn(tmp_path, ran(tmp_path, "allreduce", traces=True, steps_max=3)).lanes()["worker 0", "script"]
    assert [event["args"]["step"] for event in script if event["name"] == "compute"] == [0, 1, 2]
    assert {event["name"] for event in script} == {"compute", "wait"}


def test_coded_messages_leave_when_they_are_coded(tmp_path: Path) -> None:
    plain, traced = (ran(tmp_path, "gossip", compress="fp16", traces=traces) for traces in (False, True))
    assert plain.trace == traced.trace
    assert len(drawn(tmp_path, traced).arrows()) > 0


def test_what_a_worker_did_after_the_last_record_that_was_kept_is_not_called_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ran(tmp_path, "gossip", traces=True).facts.tracks
    monkeypatch.setattr("weft.sim.tracing.Tracks.__init__.__defaults__", (60,))
    short = ran(tmp_path, "gossip", traces=True).facts.tracks
    assert whole is not None
    assert short is not None
    assert short.num_dropped > 0
    for kept, everything in zip(short.spans, whole.spans, strict=True):
        assert 0 < len(kept) < len(everything)
        assert kept == everything[: len(kept)]
        assert kept[-1][0] == "compute"
