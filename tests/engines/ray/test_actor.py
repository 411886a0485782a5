"""A worker's actor, without Ray: its deeds in the order in which a launch asks for them."""

import os
import shutil
import signal

import msgspec
import pytest

from weft.engines.hosts.worker_info import WorkerInfo, home
from weft.engines.ray.actor import Begin, ProcessEnded, Roll, WorkerActor


def test_a_post_says_where_it_is() -> None:
    answer = WorkerActor().do("present", msgspec.json.encode(Roll(2, __file__, "127.0.0.1")))
    worker_info = msgspec.json.decode(answer, type=WorkerInfo)
    assert (worker_info.rank, worker_info.pid, worker_info.home) == (2, os.getpid(), home())
    assert worker_info.address == "127.0.0.1"
    assert worker_info.same["script"].startswith("'test_actor.py'")


@pytest.mark.processes
def test_a_post_starts_a_process_and_tells_how_it_ended() -> None:
    actor = WorkerActor()
    pid = int(actor.do("begin", msgspec.json.encode(Begin("nobody meets here", 0, 0, 1, True))))
    environment = f"/proc/{pid}/environ"
    assert os.path.exists(environment)
    os.kill(pid, signal.SIGKILL)
    ended = msgspec.json.decode(actor.do("wait", b""), type=ProcessEnded)
    assert ended.code == -signal.SIGKILL
    assert not os.path.exists(environment)


@pytest.mark.processes
def test_what_a_process_wrote_before_anybody_listened_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", shutil.which("ls"))  # which does not know the options of Python
    actor = WorkerActor()
    actor.do("begin", msgspec.json.encode(Begin("nobody meets here", 0, 0, 1, True)))
    ended = msgspec.json.decode(actor.do("wait", b""), type=ProcessEnded)
    assert ended.code == 2
    assert "invalid option" in ended.words
