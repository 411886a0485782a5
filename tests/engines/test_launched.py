"""A worker process as its launcher sees it."""

import os
import socket

from weft.engines.birth import Process
from weft.engines.launched import LocalWorker


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
