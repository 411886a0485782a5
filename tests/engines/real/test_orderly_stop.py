"""Signals end a run in order: all workers leave after the same step."""

from weft.engines.real.orderly_stop import OrderlyStop
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import LeaveAt, Message, StepAsked


def workers(*steps: int | None) -> list[WorkerRecord]:
    records = [WorkerRecord(rank, "here", 100 + rank) for rank in range(len(steps))]
    for record, step in zip(records, steps, strict=True):
        record.step_told = step
    return records


def test_all_are_asked_and_leave_after_the_step_of_the_one_that_is_furthest() -> None:
    sent: list[tuple[int, Message]] = []
    stop = OrderlyStop(lambda rank, message: sent.append((rank, message)))
    stop.begin(workers(None, None))
    assert sent == [(0, StepAsked()), (1, StepAsked())]
    assert stop.has_begun
    sent.clear()
    stop.go_on(workers(4, None), ended=())
    assert sent == []
    stop.go_on(workers(4, 6), ended=())
    stop.go_on(workers(4, 9), ended=())
    assert sent == [(0, LeaveAt(7)), (1, LeaveAt(7))]


def test_those_whose_scripts_have_ended_are_not_awaited() -> None:
    sent: list[tuple[int, Message]] = []
    stop = OrderlyStop(lambda rank, message: sent.append((rank, message)))
    stop.go_on(workers(None, None), ended={0, 1})
    assert sent == []
    stop.go_on(workers(None, 2), ended={0})
    assert (1, LeaveAt(3)) in sent
