"""The seat of a plain loop: it tells the engine, and touches nothing."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from support.processes.records import job_with

from weft.runtime.channel import Channel
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Evaluated,
    LeaveAt,
    Message,
    Reported,
    ScriptCompleted,
    ScriptJoined,
    StepAsked,
    StepTold,
    Welcome,
    WorkerJob,
)
from weft.runtime.seats.plain_seat import PlainSeat


class Model:
    """As much of a replica as a plain loop has."""

    buckets = ()

    def layout(self) -> list[str]:
        return ["w (3,) float64"]


def job(**changes: Any) -> WorkerJob:
    return job_with(**{"num_workers": 1, **changes})


def with_engine(run: Callable[[PlainSeat, Model], None], *answers: Message) -> tuple[list[Message], Model]:
    """Run a seat against an engine that gives these answers, one after each message that wants one."""
    mine, theirs = socket.socketpair()
    heard: list[Message] = []
    waiting = list(answers)
    engine = Channel(theirs)

    def listen() -> None:
        while not engine.is_closed:
            for message in engine.receive(wait=True):
                heard.append(message)
                if isinstance(message, ScriptJoined | Reported | ScriptCompleted | Concluded) and waiting:
                    engine.send(waiting.pop(0))

    thread = threading.Thread(target=listen)
    thread.start()
    model = Model()
    with theirs, mine:
        run(PlainSeat(job(), Channel(mine), sharing=None), model)  # type: ignore[arg-type]
        mine.shutdown(socket.SHUT_RDWR)
        thread.join()
    return heard, model


def test_it_joins_steps_reports_on_its_own_model_and_ends() -> None:
    def run(seat: PlainSeat, model: Model) -> None:
        seat.join(model, None)  # type: ignore[arg-type]
        seat.step_finished(4.0, 0.5)
        seat.report(0, {"loss": 0.5, "accuracy": lambda: 0.75})
        seat.end()

    heard, _ = with_engine(run, Welcome("allreduce", [0]), Decided(True), Conclude([], []), Conclude([], []))
    told = [
        message
        for message in heard
        if isinstance(message, ScriptJoined | Reported | Evaluated | ScriptCompleted | Concluded)
    ]
    assert [type(message) for message in told] == [ScriptJoined, Reported, Evaluated, ScriptCompleted, Concluded]
    assert told[1] == Reported(0, 0, {"loss": 0.5}, ["accuracy"], badness=0.5)
    assert told[2] == Evaluated(0, 0, {"accuracy": 0.75}, consensus=0.0)
    assert (told[3].final.step, told[3].final.samples) == (1, 4.0)


def test_who_is_not_the_last_to_report_does_not_evaluate() -> None:
    def run(seat: PlainSeat, model: Model) -> None:
        seat.join(model, None)  # type: ignore[arg-type]
        seat.report(0, {"accuracy": lambda: 1 / 0})

    heard, _ = with_engine(run, Welcome("allreduce", [0]), Decided(False))
    assert not any(isinstance(message, Evaluated) for message in heard)


def test_asked_to_leave_it_tells_its_step_and_pauses_until_it_knows_the_last_one() -> None:
    def run(seat: PlainSeat, model: Model) -> None:
        seat.join(model, None)  # type: ignore[arg-type]
        seat._hear(StepAsked())
        assert seat._pauses_at_step
        seat._hear(LeaveAt(7))
        assert (seat.steps_max, seat._pauses_at_step) == (7, False)

    heard, _ = with_engine(run, Welcome("allreduce", [0]))
    assert StepTold(0) in heard
