"""The side of a contender's process."""

import json
import socket
from pathlib import Path
from threading import Thread

from weft.bench.serving import Task, serve


def test_a_task_is_one_argument_of_a_command_line() -> None:
    task = Task("there", "gloo", "16MiB", 4, rank=2, store_port=1234, store_fd=5)
    assert Task(**json.loads(task.text())) == task
    assert " " not in task.text()


def test_a_process_repeats_as_often_as_it_is_told_and_leaves_at_the_end_of_the_stream(tmp_path: Path) -> None:
    task, calls = Task(str(tmp_path / "socket"), "fake", "steady", 1), []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(task.address)
        listener.listen()
        process = Thread(target=serve, args=(task, lambda: calls.append(1)))
        process.start()
        stream, _ = listener.accept()
        with stream, stream.makefile("r") as answers:
            for repeats in (3, 2):
                stream.sendall(b"block %d\n" % repeats)
                assert float(answers.readline()) >= 0
        process.join(10)
    assert not process.is_alive()
    assert len(calls) == 5
