"""A worker process as its launcher sees it."""

from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import Status


def test_where_a_script_was_is_told_by_what_was_heard_of_it() -> None:
    worker = WorkerRecord(1, "mill", 4711)
    assert worker.moment == "before it had joined"
    worker.has_joined = True
    assert worker.moment == "after it had joined"
    worker.status = Status(1, 1.0, 5, 10.0, None, 0.0, 0.0, 0.0, 0, 0, 0, None, "computes")
    assert worker.moment == "at step 5"
    worker.has_ended = True
    assert worker.moment == "after its script had ended"
