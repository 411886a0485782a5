"""A worker as its host agent looks after it: told without waiting, and killed only if it has come."""

import os
import signal
import socket

from support.processes.agents import sleeper

from weft.engines.hosts.agent_worker import AgentWorker
from weft.runtime.channel import Channel
from weft.runtime.messages import LeaveAt, StepAsked


def test_one_that_does_not_listen_holds_up_nobody_and_hears_all_when_it_does() -> None:
    mine, theirs = socket.socketpair()
    readable, writable = os.pipe()
    with sleeper() as pid:
        worker = AgentWorker(3, pid)
        worker.let_in(mine, [readable])
        told = [LeaveAt(step) for step in range(20_000)]
        for message in told:
            worker.say(message)
        heard: list[object] = []
        channel = Channel(theirs)
        while len(heard) < len(told):
            heard += channel.receive(wait=False)
            worker.flush()
        assert heard == told
        worker.close()
        channel.close()
        os.close(writable)


def test_what_is_said_before_it_has_come_it_hears_when_it_does() -> None:
    mine, theirs = socket.socketpair()
    readable, writable = os.pipe()
    with sleeper() as pid:
        worker = AgentWorker(3, pid)
        worker.say(StepAsked())
        worker.flush()
        worker.let_in(mine, [readable])
        worker.say(LeaveAt(5))
        channel = Channel(theirs)
        assert list(channel.receive(wait=True)) == [StepAsked(), LeaveAt(5)]
        worker.close()
        channel.close()
        os.close(writable)


def test_one_that_is_gone_is_not_told_and_does_not_hurt() -> None:
    mine, theirs = socket.socketpair()
    readable, writable = os.pipe()
    with sleeper() as pid:
        worker = AgentWorker(3, pid)
        worker.let_in(mine, [readable])
        theirs.close()
        worker.say(StepAsked())
        worker.close()
        worker.say(StepAsked())
        assert worker.channel is not None
        assert worker.channel.is_closed
        os.close(writable)


def test_only_who_has_come_is_killed() -> None:
    with sleeper() as innocent:
        worker = AgentWorker(0, innocent)
        worker.kill()
        os.kill(innocent, 0)
        assert os.waitpid(innocent, os.WNOHANG) == (0, 0)
        worker.close()


def test_one_that_was_buried_meanwhile_is_not_killed_again() -> None:
    mine, theirs = socket.socketpair()
    readable, writable = os.pipe()
    pid = os.fork()
    if not pid:
        signal.pause()
    worker = AgentWorker(0, pid)
    worker.let_in(mine, [readable])
    worker.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    worker.kill()
    worker.close()
    theirs.close()
    os.close(writable)
