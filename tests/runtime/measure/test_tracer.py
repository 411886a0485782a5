"""What a process keeps for a trace, and traces of real runs."""

from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from support.oracles.traces import Trace, worker_of
from support.processes.real import real

from weft.core.actions import Reduce
from weft.core.activity import ACTIVITIES, COMPUTES, READS, WAITS
from weft.core.names import Buffer
from weft.engines.real.outcome import RealOutcome
from weft.observe.logs.trace import write_trace
from weft.observe.records.tracks import Traced
from weft.runtime.measure import tracer as module
from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.tracer import BATCH, Tracer

NUM_WORKERS = 3
NUM_STEPS = 20
TRAIN = f"""
import numpy as np
import weft

w = np.ones(50)
worker = weft.join(arrays={{"w": w}}, optimizer=weft.SGD(lr=0.1))
for epoch in worker.epochs(1):
    for rows in worker.share({NUM_STEPS * NUM_WORKERS * 2}, batch_size=2):
        worker.step({{"w": w - rows.mean()}})
worker.report(total=lambda: w.sum())
"""


def everything(tracer: Tracer) -> list[Traced]:
    told: list[Traced] = []
    tracer.tell(lambda one: told.append(one) or True)
    return told


def test_what_was_kept_is_told_once_in_the_order_of_its_ends() -> None:
    activity_clock = ActivityClock(keeps_spans=True)
    tracer = Tracer(activity_clock)
    activity_clock.turn_to(WAITS)
    tracer.step(1)
    tracer.sent(0, 1, "push", 5, 80, 1.0)
    tracer.received(1, 0, "answer", 5, 8, 2.0)
    tracer.sent(0, 1, "push", 6, 80, 3.0)
    tracer.reduced(0, Reduce((0, 1), "mean", 4, Buffer("gradient", 2), "mean", 1.0), 40, 4.0)
    (told,) = everything(tracer)
    assert [span[0] for span in told.spans] == [COMPUTES]
    assert [step for step, _ in told.steps] == [1]
    assert [
        (p.is_sent, p.source, p.target, p.number, p.kind, p.clock, p.num_bytes, p.start_s) for p in told.passages
    ] == [
        (True, 0, 1, 1, "push", 5, 80, 1.0),
        (False, 1, 0, 1, "answer", 5, 8, 2.0),
        (True, 0, 1, 2, "push", 6, 80, 3.0),
    ]
    (reduction,) = told.reductions
    assert (reduction.kind, reduction.clock, reduction.bucket, reduction.num_bytes) == ("mean", 4, 2, 40)
    assert everything(tracer) == []


def test_what_the_engine_does_not_take_now_it_is_told_later() -> None:
    tracer = Tracer(ActivityClock())
    for _ in range(2 * BATCH + 1):
        tracer.step(1)
    heard: list[Traced] = []

    def takes_one(told: Traced) -> bool:
        heard.append(told)
        return len(heard) == 1

    tracer.tell(takes_one)
    assert [len(told.steps) for told in heard] == [BATCH, BATCH], "the second was refused"
    assert [len(told.steps) for told in everything(tracer)] == [BATCH, 1]


def test_memory_is_bounded_and_what_is_dropped_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 10)
    activity_clock = ActivityClock(keeps_spans=True)
    tracer = Tracer(activity_clock)
    for turn in range(13):
        tracer.step(turn)
        activity_clock.turn_to((COMPUTES, READS)[turn % 2])
    tracer.tell(lambda told: False)
    (told,) = everything(tracer)
    assert (len(told.steps), len(told.spans), told.num_dropped) == (10, 10, 3 + 3)


def test_what_two_threads_tell_at_once_is_told_once() -> None:
    tracer = Tracer(ActivityClock())
    for number in range(3 * BATCH):
        tracer.step(number)
    is_inside, told = Event(), []

    def slowly(one: Traced) -> bool:
        told.append(one)
        if not is_inside.is_set():
            is_inside.set()
            second.join(0.2)  # the second thread would end here if it did not wait for the first
        return True

    def meanwhile() -> None:
        assert is_inside.wait(5)
        tracer.tell(lambda one: told.append(one) or True)

    second = Thread(target=meanwhile)
    second.start()
    tracer.tell(slowly)
    second.join()
    assert [step for one in told for step, _ in one.steps] == list(range(3 * BATCH))


def traced(folder: Path, strategy: str | None, transport: str = "shm", **options: Any) -> tuple[RealOutcome, Trace]:
    (folder / "train.py").write_text(TRAIN)
    outcome = real(folder / "train.py", NUM_WORKERS, strategy, transport=transport, traces=True, **options)
    assert outcome.tracks is not None
    write_trace(folder / "trace.json", outcome.tracks, {})
    return outcome, Trace(folder / "trace.json")


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("strategy", ["ssp(servers=2)", "gossip", "async_gossip", "allreduce", "local_sgd(period=4)"])
def test_a_real_run_has_a_trace_with_an_arrow_for_each_message(strategy: str, transport: str, tmp_path: Path) -> None:
    outcome, trace = traced(tmp_path, strategy, transport)
    assert trace.about == {"records_dropped": 0, "messages_with_one_end": 0}
    lanes = trace.lanes()
    for rank, status in enumerate(outcome.workers):
        script = lanes[f"worker {rank}", "script"]
        assert {event["name"] for event in script} <= set(ACTIVITIES)
        assert {event["args"]["step"] for event in script} == set(range(NUM_STEPS + 1))
        # one after another without a gap
        seconds = sum(event["dur"] for event in script) / 1e6
        begin, end = min(event["ts"] for event in script), max(event["ts"] + event["dur"] for event in script)
        assert seconds == pytest.approx((end - begin) / 1e6, abs=1e-5)
        assert seconds > status.waiting_s
    if strategy.startswith("ssp"):
        assert Counter(lane for _, lane in lanes)["server 1"] == 1
        assert lanes["worker 1", "server 1"] != []
    assert (len(trace.of("b")) > 0) == (strategy in ("allreduce", "local_sgd(period=4)"))
    assert (len(trace.arrows()) > 0) != (transport == "shm" and strategy == "allreduce")


def test_reductions_in_shared_memory_are_told_by_every_worker_for_every_step(tmp_path: Path) -> None:
    _, trace = traced(tmp_path, "allreduce")
    told = Counter((worker_of(event), event["args"]["bytes"]) for event in trace.of("b"))
    assert told == {(rank, 400): NUM_STEPS for rank in range(NUM_WORKERS)}


def test_bytes_of_arrows_are_those_that_were_put_on_the_wire(tmp_path: Path) -> None:
    outcome, trace = traced(tmp_path, "gossip")
    arrows = trace.arrows()
    sent = sum(arrow["args"]["bytes"] for _, _, arrow in arrows if not arrow["name"].startswith("@"))
    assert 0 < sent <= sum(status.bytes_sent for status in outcome.workers)
    assert {arrow["args"]["bytes"] for _, _, arrow in arrows if arrow["name"] == "@values"} == {464}


def test_a_timeline_shows_all_workers_in_the_same_moments(tmp_path: Path) -> None:
    outcome, _ = traced(tmp_path, "allreduce")
    lanes = outcome.to_json()["timeline"]
    starts, stops = {lane[0][1] for lane in lanes}, {lane[-1][2] for lane in lanes}
    assert (len(lanes), len(starts), len(stops)) == (NUM_WORKERS, 1, 1)
    assert 0 < starts.pop() < stops.pop() < outcome.wall_s
    assert {what for lane in lanes for what, _, _ in lane} >= {COMPUTES}


def test_without_being_asked_a_worker_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    outcome = real(tmp_path / "train.py", NUM_WORKERS, "gossip")
    assert (outcome.tracks, outcome.to_json()["timeline"]) == (None, None)
