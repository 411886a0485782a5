"""The controller of a run on several hosts: whom it lets in, whom it tells what, and when it gives a host up."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes.agents import HostAgent, new_head

from weft.core.errors import ConfigError, NodeLost, TransportError, WeftError
from weft.engines.hosts import timeouts
from weft.engines.hosts.agent_link import (
    InterruptRequested,
    Kill,
    RunFailed,
    Tell,
    Values,
    WorkerConnected,
    WorkerExited,
    WorkerMessage,
    WorkerOutput,
)
from weft.engines.hosts.controller import Controller
from weft.engines.real import memory_check
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.runtime.messages import Halt, ScriptJoined, Welcome, WorkerJob

JOINED = ScriptJoined(["w (2,) float64"], 16, None, 7)


@contextmanager
def running(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Iterator["Future[RealOutcome]"]:
    """The controller at work in a thread of its own."""
    monkeypatch.setattr("signal.signal", lambda number, handler: handler)  # threads may not
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(controller.run)
    controller.close()


def test_workers_are_told_their_part_and_all_hosts_have_the_first_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[int, str, bool]] = []
    observer = Observer(on_line=lambda *line: lines.append(line))
    controller, address = new_head(tmp_path, ["mill", "barn"], observer)
    with running(controller, monkeypatch) as run:
        mill = HostAgent(address, 0)
        mill.link.send(WorkerConnected(0, 100))
        mill.link.send(Values(0, b"first values"))  # before the other host has called
        mill.link.send(WorkerMessage(0, JOINED))
        barn = HostAgent(address, 1)
        barn.link.send(WorkerConnected(1, 101))
        told = barn.until(Tell, WorkerJob)
        assert (told.rank, told.message.rank, told.message.hosts) == (1, 1, [0, 1])
        assert told.message.addresses == ["127.0.0.1", "127.0.0.1"]
        assert barn.until(Values) == Values(0, b"first values")
        barn.link.send(WorkerOutput(1, "hello", True))
        barn.link.send(WorkerMessage(1, JOINED))
        barn.until(Tell, Welcome)
        assert not any(isinstance(each, Values) for each in mill.heard)
        barn.link.send(WorkerExited(1))
        mill.until(Tell, Halt)
        mill.link.send(WorkerExited(0))
        mill.until(RunFailed)
        with pytest.raises(
            NodeLost, match=r"worker 1 \(host barn, pid 101\) stopped after it had joined: its process has ended"
        ):
            run.result(20)
        assert lines == [(1, "hello", True)]
        mill.close()
        barn.close()


def test_a_host_that_falls_silent_is_given_up_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "AGENT_SILENT_S", 0.3)
    controller, address = new_head(tmp_path, ["mill", "barn"])
    with running(controller, monkeypatch) as run:
        mill, barn = HostAgent(address, 0), HostAgent(address, 1)
        mill.until(Tell, Halt)  # it shows signs of life, the other one does not
        mill.link.send(WorkerExited(0))
        mill.until(RunFailed)
        with pytest.raises(NodeLost, match=r"worker 1 .*: host barn \(127.0.0.1\) is gone: nothing was heard of it"):
            run.result(20)
        mill.close()
        barn.close()


@pytest.mark.slow
def test_a_host_that_hangs_up_is_given_up_and_the_others_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, address = new_head(tmp_path, ["mill", "barn"])
    with running(controller, monkeypatch) as run:
        mill, barn = HostAgent(address, 0), HostAgent(address, 1)
        barn.close()
        mill.until(Kill)
        mill.link.send(WorkerExited(0))
        with pytest.raises(NodeLost, match=r"host barn .* is gone: its connection ended"):
            run.result(20)
        mill.close()


def test_strangers_and_the_same_host_twice_are_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, address = new_head(tmp_path, ["mill", "barn"])
    with running(controller, monkeypatch) as run:
        mill = HostAgent(address, 0)
        with pytest.raises(TransportError):
            HostAgent(address, 1, bytes(32))
        with pytest.raises(TransportError):
            HostAgent(address, 0)
        with pytest.raises(TransportError):
            HostAgent(address, 7)
        assert sum(controller.refused.values()) >= 3
        assert {"duplicate host", "wrong host"} <= controller.refused.keys()
        barn = HostAgent(address, 1)
        barn.link.send(WorkerExited(1))
        mill.link.send(WorkerExited(0))
        with pytest.raises(WeftError):
            run.result(20)
        mill.close()
        barn.close()


def test_a_host_speaks_for_its_own_workers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    controller, address = new_head(tmp_path, ["mill", "barn"])
    with running(controller, monkeypatch) as run:
        mill, barn = HostAgent(address, 0), HostAgent(address, 1)
        barn.link.send(InterruptRequested(0, 1))
        mill.until(Tell, Halt)
        mill.link.send(WorkerExited(0))
        mill.until(RunFailed)
        with pytest.raises(NodeLost, match=r"host barn .* speaks for worker 0, which is not on it"):
            run.result(20)
        mill.close()
        barn.close()


def test_hosts_that_never_call_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "AGENTS_CALL_S_MAX", 0.2)
    controller, address = new_head(tmp_path, ["mill", "barn", "loft"])
    with running(controller, monkeypatch) as run:
        mill = HostAgent(address, 0)
        with pytest.raises(TransportError, match=r"0.2 s for host barn \(127.0.0.1\), host loft \(127.0.0.1\)"):
            run.result(20)
        assert mill.until(RunFailed)
        mill.close()


def test_each_hosts_workers_must_fit_into_its_own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "available_bytes", lambda: 0)  # nothing is left where the controller is
    controller, _ = new_head(tmp_path, ["mill", "barn", "barn"], available_bytes=5 * 16 * 3)
    everybody_joins(controller)
    assert controller._session.has_begun
    controller.close()
    controller, _ = new_head(tmp_path, ["mill", "barn", "barn"], available_bytes=5 * 16 * 2)
    with pytest.raises(ConfigError, match=r"^2 workers on host barn need .* are available there.\n  Start 1 there or"):
        everybody_joins(controller)
    controller.close()


def everybody_joins(controller: Controller) -> None:
    for rank in range(3):
        controller._session.hear(rank, JOINED)
