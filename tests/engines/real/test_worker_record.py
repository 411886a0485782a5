"""A worker process as its launcher sees it."""

import os
import socket

from weft.engines.local.forked_workers import Process
from weft.engines.real.worker_record import LocalWorker, WorkerRecord
from weft.observe.records.status import Status


def test_a_worker_has_the_id_of_its_process_and_nothing_is_known_of_its_end() -> None:
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        os._exit(3)
    process = Process(pid, mine, -1, -1)
    worker = LocalWorker(2, process)
    assert (worker.rank, worker.pid, worker.host, worker.exit_code) == (2, pid, socket.gethostname(), None)
    assert (worker.is_alive, worker.has_finished, worker.status) == (True, False, None)
    process.wait()
    worker.channel.close()
    theirs.close()


def test_where_a_script_was_is_told_by_what_was_heard_of_it() -> None:
    worker = WorkerRecord(1, "mill", 4711)
    assert worker.moment == "before it had joined"
    worker.has_joined = True
    assert worker.moment == "after it had joined"
    worker.status = Status(1, 1.0, 5, 10.0, None, 0.0, 0.0, 0.0, 0, 0, 0, None, "computes")
    assert worker.moment == "at step 5"
    worker.has_ended = True
    assert worker.moment == "after its script had ended"
