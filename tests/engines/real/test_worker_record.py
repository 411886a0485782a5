"""A worker process as its supervisor sees it."""

from support.processes.records import status_with

from weft.engines.real.worker_record import WorkerRecord


def test_where_a_script_was_is_told_by_what_was_heard_of_it() -> None:
    worker = WorkerRecord(1, "mill", 4711)
    assert worker.moment == "before it had joined"
    worker.has_joined = True
    assert worker.moment == "after it had joined"
    worker.status = status_with(rank=1, time_s=1.0, step=5, samples=10.0)
    assert worker.moment == "at step 5"
    worker.has_ended = True
    assert worker.moment == "after its script had ended"
