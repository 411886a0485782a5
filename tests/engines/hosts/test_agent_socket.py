"""How a worker meets the host agent, and what it says of one that is not there or does not answer."""

import os
import socket
import subprocess
import sys

import pytest
from support.processes.agents import PATIENCE_S, token

from weft.core.errors import TransportError
from weft.engines.hosts.agent_socket import address_of, meet


def test_nobody_keeps_a_place_that_is_not_there() -> None:
    with pytest.raises(TransportError, match=r"waited 0.05 s for the host agent"):
        meet(token(), 0, 1, [], 0.05)


def test_a_steward_that_listens_but_is_stopped_is_not_waited_for_without_end() -> None:
    name = token()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(address_of(name, 0))
        silent.listen(0)
        with pytest.raises(TransportError, match=rf"\(pid {os.getpid()}\) did not answer worker 1 for 0.05 s"):
            meet(name, 0, 1, [], 0.05)
        with pytest.raises(TransportError, match=r"waited 0\.05 s for the host agent"):
            meet(name, 0, 1, [], 0.05)  # the one that nobody has answered takes up all the room at the door


def test_a_steward_that_ended_before_anybody_met_it_is_named_at_once() -> None:
    started = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"])
    with started, pytest.raises(TransportError, match=rf"\(pid {started.pid}\) ended before .* met it: exit code 5"):
        meet(token(), 0, 0, [], PATIENCE_S, started)


def test_every_host_of_every_run_has_a_place_of_its_own() -> None:
    assert len({address_of("a", 0), address_of("a", 1), address_of("b", 0)}) == 3
    assert address_of("a", 0).startswith("\0")
