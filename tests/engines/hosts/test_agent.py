"""The host agent, played against a controller that is a test: whom it lets in, and what it does when somebody ends."""

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from secrets import token_bytes
from time import monotonic

import pytest
from support.processes.agents import PATIENCE_S, SECRET, sleeper, token

from weft.core.errors import TransportError
from weft.engines.hosts import timeouts
from weft.engines.hosts.agent import AgentOrders, HostAgent
from weft.engines.hosts.agent_link import (
    CONTROLLER,
    AgentHeartbeat,
    AgentLink,
    ControllerHeartbeat,
    InterruptRequested,
    Kill,
    Relayed,
    RunFailed,
    Tell,
    Values,
    WorkerConnected,
    WorkerExited,
    WorkerMessage,
    WorkerOutput,
)
from weft.engines.hosts.agent_socket import meet
from weft.engines.hosts.bootstrap import wait_for_reader
from weft.engines.hosts.launch_env import LaunchPlacement
from weft.engines.real import timeouts as real_timeouts
from weft.runtime.channel import Channel
from weft.runtime.messages import Halt, Leaving, StepTold
from weft.transports.door import Door, listen
from weft.transports.handshake import NONCE_BYTES, answer


def _serve(orders: AgentOrders) -> None:
    with closing(HostAgent(orders)) as agent:
        agent.run()


class Played:
    """A head that answers one host agent, and the host agent in a thread."""

    def __init__(self, pids: dict[int, int], placed: LaunchPlacement | None = None) -> None:
        self.heard: list[Relayed] = []
        self.ended: list[str] = []
        self.token = token()
        self.selector = selectors.DefaultSelector()
        listener = listen("127.0.0.1")
        orders = AgentOrders(
            host=0,
            pids=pids,
            token=self.token,
            controller=listener.getsockname(),
            secret=SECRET,
            is_encrypted=False,
            placed=placed,
        )
        self.door = Door(
            listener,
            lambda certified: answer(CONTROLLER, lambda rank, view: None, SECRET, token_bytes(NONCE_BYTES)),
            None,
            self.selector,
            monotonic,
        )
        self.link: AgentLink | None = None
        self.thread = ThreadPoolExecutor(1)
        self.agent = self.thread.submit(_serve, orders)
        self._until(lambda: self.link is not None)

    def _turn(self) -> None:
        for key, _ in self.selector.select(0.01):
            if isinstance(key.data, Door):
                key.data.accept()
            elif callable(key.data):
                key.data()
            elif self.door.advance(key.data) is not None:
                self.link = AgentLink(key.data.sock, self.selector, self.heard.append, self.ended.append)

    def _until(self, done) -> None:  # type: ignore[no-untyped-def]
        deadline_s = monotonic() + PATIENCE_S
        while not done():
            assert monotonic() < deadline_s, f"it never came; heard {self.heard[-5:]}"
            self._turn()

    def until(self, wanted: Relayed) -> None:
        self._until(lambda: wanted in self.heard)

    def send(self, message: Relayed) -> None:
        assert self.link is not None
        self.link.send(message)
        self._turn()

    def close(self) -> None:
        assert self.link is not None
        self.link.close()
        self.door.close()
        self.thread.shutdown()
        self.selector.close()
        assert self.agent.exception() is None


@contextmanager
def played(pids: dict[int, int], placed: LaunchPlacement | None = None) -> Iterator[Played]:
    controller = Played(pids, placed)
    try:
        yield controller
    finally:
        controller.close()


@contextmanager
def worker() -> Iterator[tuple[int, int]]:
    """A process that meets the host agent as worker 0 once it is told where; its id, and where to tell it."""
    readable, writable = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _play_worker(os.read(readable, 100).decode())
        finally:
            os._exit(1)
    os.close(readable)
    try:
        yield pid, writable
    finally:
        os.close(writable)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _play_worker(name: str) -> None:
    out, into = os.pipe()
    channel_fd, memories, signals = meet(name, 0, 0, [out], 10.0)
    channel = Channel(socket.socket(fileno=channel_fd))
    channel.send(StepTold(len(memories)))
    assert next(iter(channel.receive(wait=True))) == Halt()
    os.write(signals, b"!!")
    os.write(into, b"a line\n")
    signal.pause()


def test_a_worker_gets_its_channel_and_its_hosts_memory_and_is_heard() -> None:
    with worker() as (pid, tell), sleeper() as other, played({0: pid, 1: other}) as controller:
        os.write(tell, controller.token.encode())
        controller.until(WorkerConnected(0, pid))
        controller.until(WorkerMessage(0, StepTold(4 + 2 * 2)))
        controller.send(Tell(0, Halt()))
        controller.until(InterruptRequested(0, 2))
        controller.until(WorkerOutput(0, "a line", False))
        assert not controller.ended


@contextmanager
def played_with_mortal() -> Iterator[tuple[Played, int]]:
    """A worker that has come, and may be killed; its id."""
    with worker() as (pid, tell), played({0: pid}) as controller:
        os.write(tell, controller.token.encode())
        controller.until(WorkerConnected(0, pid))
        yield controller, pid


def has_ended(pid: int) -> bool:
    """It has, or it is about to."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None


def test_a_worker_that_ends_is_told_and_its_state_before() -> None:
    with played_with_mortal() as (controller, pid):
        controller._until(
            lambda: any(isinstance(each, AgentHeartbeat) and each.states.get(0) == "S" for each in controller.heard)
        )
        controller.send(Kill())
        controller.until(WorkerExited(0))
        assert has_ended(pid)


def test_who_has_not_come_is_not_killed_whatever_the_orders_say() -> None:
    with sleeper() as innocent, played({1: innocent}) as controller:
        controller.send(Kill())
        controller.until(WorkerExited(1))
        assert os.waitpid(innocent, os.WNOHANG) == (0, 0)


def test_who_has_not_come_is_killed_if_its_environment_says_that_it_is_that_worker() -> None:
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "mill", "MASTER_PORT": "4711"}
    about = [sys.executable, "-c", "import signal; signal.pause()"]
    placed = LaunchPlacement(0, 2, "mill", 4711, "run/0", True)
    with subprocess.Popen(about, env=environ) as late, subprocess.Popen(about, env={**environ, "RANK": "0"}) as other:
        os.kill(late.pid, signal.SIGSTOP)
        with played({1: late.pid, 5: other.pid}, placed) as controller:
            controller.send(Kill())
            controller.until(WorkerExited(1))
            controller.until(WorkerExited(5))
            assert late.wait(20) == -signal.SIGKILL
            assert other.poll() is None
        other.kill()


def test_a_worker_that_dies_in_the_midst_of_coming_hurts_nobody() -> None:
    with worker() as (pid, tell), sleeper() as dying, played({0: pid, 1: dying}) as controller:
        os.write(tell, controller.token.encode())
        controller.until(WorkerConnected(0, pid))
        controller.send(Tell(1, Halt()))  # nobody is there to hear it
        os.kill(dying, signal.SIGKILL)
        controller.until(WorkerExited(1))
        controller.until(WorkerMessage(0, StepTold(4 + 2 * 2)))
        assert not controller.ended


def test_a_head_that_falls_silent_is_as_good_as_gone(capsys: pytest.CaptureFixture[str]) -> None:
    with played_with_mortal() as (controller, pid):
        controller.send(ControllerHeartbeat(0.3))
        controller._until(lambda: bool(controller.ended))  # says nothing more
        assert controller.agent.result(20) is None
        assert has_ended(pid)
    assert "the run's controller is gone: nothing was heard of it for 0." in capsys.readouterr().err


def test_a_worker_that_leaves_is_let_go_and_sees_the_end_of_its_steward() -> None:
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        channel_fd, _, signals = meet(os.read(told, 100).decode(), 0, 0, [], 10.0)
        Channel(socket.socket(fileno=channel_fd)).send(Leaving())
        wait_for_reader(signals, PATIENCE_S)
        os._exit(7)
    with played({0: pid}) as controller:
        os.write(tell, controller.token.encode())
        controller.until(WorkerExited(0))
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)  # it waits for the host agent, which waits for the controller
    os.close(told)
    os.close(tell)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_a_worker_that_is_stopped_while_it_waits_for_the_end_of_its_steward_is_ended(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real_timeouts, "PROCESS_STOPPED_S", 0.1)
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        channel_fd, _, _ = meet(os.read(told, 100).decode(), 0, 0, [], 10.0)
        Channel(socket.socket(fileno=channel_fd)).send(Leaving())
        os.kill(os.getpid(), signal.SIGSTOP)
    with played({0: pid}) as controller:
        os.write(tell, controller.token.encode())
        controller.until(WorkerExited(0))
        os.waitpid(pid, os.WUNTRACED)
    os.close(told)
    os.close(tell)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    said = f"weft: worker 0 (pid {pid}) is stopped after its script had ended: it is ended.\n  Find out who stopped it."
    assert said in capfd.readouterr().err


def test_strangers_on_the_same_host_are_not_let_in() -> None:
    with sleeper() as other, played({1: other}) as controller:
        with pytest.raises(TransportError, match="did not let worker 1 in"):
            meet(controller.token, 0, 1, [], 10.0)  # this process is not that worker
        assert WorkerConnected(1, os.getpid()) not in controller.heard


def test_first_values_of_another_host_are_written_and_failures_are_printed_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with played_with_mortal() as (controller, pid):
        controller.send(Values(0, b"first "))
        controller.send(Values(6, b"values"))
        controller.send(RunFailed("weft: worker 3 stopped"))
        controller.send(Kill())
        controller.until(WorkerExited(0))
        assert has_ended(pid)
        assert controller.link is not None
        controller.link.close()
        assert controller.agent.result(20) is None
    assert capsys.readouterr().err == "weft: worker 3 stopped\n"


def test_workers_end_when_the_head_is_gone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "ORPHANS_END_S", 0.05)
    with played_with_mortal() as (controller, pid):
        assert controller.link is not None
        controller.link.close()
        assert controller.agent.result(20) is None
        assert has_ended(pid)
    assert "the run's controller is gone: its connection " in capsys.readouterr().err
