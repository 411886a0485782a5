"""A worker process as its launcher sees it."""

import os
import socket

from weft.engines.birth import Process
from weft.engines.launched import Worker


def test_a_worker_has_the_id_and_the_end_of_its_process() -> None:
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        os._exit(3)
    process = Process(pid, mine, -1, -1)
    worker = Worker(2, process)
    assert (worker.rank, worker.pid, worker.exit_code) == (2, pid, None)
    assert (worker.is_alive, worker.has_finished, worker.status) == (True, False, None)
    process.wait()
    assert worker.exit_code == 3
    worker.channel.close()
    theirs.close()
