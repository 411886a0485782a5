"""A worker's post, without Ray: its deeds in the order in which a launch asks for them."""

import os
import shutil
import signal

import msgspec
import pytest

from weft.engines.hosts.worker_info import Presence, home
from weft.engines.ray.actor import Begin, Ended, Post, Roll


def test_a_post_says_where_it_is() -> None:
    answer = Post().do("present", msgspec.json.encode(Roll(2, __file__, "127.0.0.1")))
    presence = msgspec.json.decode(answer, type=Presence)
    assert (presence.rank, presence.pid, presence.home) == (2, os.getpid(), home())
    assert presence.address == "127.0.0.1"
    assert presence.same["script"].startswith("'test_posts.py'")


def test_a_post_starts_a_process_and_tells_how_it_ended() -> None:
    post = Post()
    pid = int(post.do("begin", msgspec.json.encode(Begin("nobody meets here", 0, 0, 1, True))))
    environment = f"/proc/{pid}/environ"
    assert os.path.exists(environment)
    os.kill(pid, signal.SIGKILL)
    ended = msgspec.json.decode(post.do("wait", b""), type=Ended)
    assert ended.code == -signal.SIGKILL
    assert not os.path.exists(environment)


def test_what_a_process_wrote_before_anybody_listened_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", shutil.which("ls"))  # which does not know the options of Python
    post = Post()
    post.do("begin", msgspec.json.encode(Begin("nobody meets here", 0, 0, 1, True)))
    ended = msgspec.json.decode(post.do("wait", b""), type=Ended)
    assert ended.code == 2
    assert "invalid option" in ended.words
