"""The relay process: carries packets between namespaces, tells what it carried, and ends with whoever started it."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import pytest
from support.network.namespaces import inside

from weft.engines.netem import relay
from weft.engines.netem.links import EmulatedLink
from weft.engines.netem.namespaces import address
from weft.engines.netem.relay import FDS_PER_MESSAGE, Carried, RelayPlan

PLAN = RelayPlan([EmulatedLink(1e6, 0.0, 0.0)] * 2, 0)


class Relay:
    """A relay and our end of its socket."""

    def __init__(self, plan: RelayPlan = PLAN, launcher: int | None = None) -> None:
        self.end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.settimeout(10)
        command = (sys.executable, "-m", "weft.engines.netem.relay", str(theirs.fileno()))
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(launcher or os.getpid()), msgspec.json.encode(plan).decode()],
                pass_fds=[theirs.fileno()],
            )

    def receive(self) -> tuple[Carried, list[int]]:
        raw, fds, _, _ = socket.recv_fds(self.end, 1 << 12, FDS_PER_MESSAGE)
        return msgspec.json.decode(raw, type=Carried), fds


def test_packets_reach_whom_they_are_for_and_no_others_and_are_counted() -> None:
    carrier = Relay()
    told, namespaces = carrier.receive()
    assert (told, len(namespaces)) == (Carried(), 2)

    def opened(rank: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((address(rank), 4711))
        sock.settimeout(10)
        return sock

    first, second = (inside(namespaces[rank], partial(opened, rank)) for rank in range(2))
    with first, second:
        first.sendto(b"to nobody", (address(7), 4711))
        first.sendto(b"hello", (address(1), 4711))
        assert second.recvfrom(100) == (b"hello", (address(0), 4711))
        told, _ = carrier.receive()
        assert (told.num_packets, told.num_bytes) == (1, len(b"hello") + 28)
    carrier.end.close()
    assert carrier.process.wait(10) == 0
    for namespace in namespaces:
        os.close(namespace)


@pytest.mark.root
def test_more_namespaces_than_one_message_takes_come_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FDS_PER_MESSAGE", 2)
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine, theirs, ThreadPoolExecutor(1) as thread:
        descriptors = thread.submit(relay._make, theirs, 3).result()
        came = [socket.recv_fds(mine, 1 << 12, 9)[1] for _ in range(2)]
    assert [len(some) for some in came] == [2, 1]
    for descriptor in (*descriptors, *came[0], *came[1]):
        os.close(descriptor)


def test_a_relay_whose_launcher_is_gone_ends_at_once() -> None:
    orphan = Relay(launcher=1)
    assert orphan.process.wait(10) == 1
    orphan.end.close()


def test_a_relay_that_may_not_make_namespaces_says_so() -> None:
    limited = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False, timeout=30)
    assert limited.stdout + limited.stderr == "unshare failed: Operation not permitted\n"


LIMITED = """
import os, socket, sys
import msgspec
from weft.engines.netem import relay

os.setgid(65534)
os.setuid(65534)
mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
plan = msgspec.json.encode(relay.RelayPlan([relay.EmulatedLink(1.0, 0.0, 0.0)], 0)).decode()
sys.argv = ["relay", str(theirs.detach()), str(os.getppid()), plan]
relay.main()
print(msgspec.json.decode(mine.recv(4096), type=relay.Carried).error.partition("] ")[2])
"""
