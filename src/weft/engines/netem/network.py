"""The launcher's side of an emulated network: starts the relay, gets a namespace per worker from it, and ends it."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import to_builtins

from weft.config.network import EmulatedNetwork
from weft.core.errors import ConfigError, NodeLost
from weft.engines.netem.links import EmulatedLink
from weft.engines.netem.namespaces import TUN, WORKERS_MAX
from weft.engines.netem.relay import FDS_PER_MESSAGE, Carried, RelayPlan
from weft.interpreter import python_module

MAKE_S_MAX = 60.0
CONCLUDE_S_MAX = 5.0
CONNECT_S = 10.0
CALL_DELAYS = 12
"""A connection may take this many one-way delays: TCP's handshake and three messages, some of which may be lost."""
LOST_S = 10.0
FIGURES = ("num_bytes", "num_packets", "num_lost", "num_dropped")
OTHERWISE = "or try it in virtual time, as any user: weft simulate SCRIPT --cluster FILE."


def check_network(num_workers: int) -> None:
    """Raise ConfigError if this machine cannot emulate a network."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        raise ConfigError(f"--net makes network namespaces, which needs root on Linux.\n  Use sudo, {OTHERWISE}")
    if not Path(TUN).exists():
        raise ConfigError(f"--net needs '{TUN}', which this machine lacks.\n  Use modprobe tun, {OTHERWISE}")
    if num_workers > WORKERS_MAX:
        raise ConfigError(f"--net is for {WORKERS_MAX} workers at most.\n  Use weft simulate SCRIPT --cluster FILE.")


def connect_timeout_s(network: EmulatedNetwork | None, num_workers: int) -> float:
    """How long workers may take to connect: each connects to all of lower rank, one after the other."""
    return CONNECT_S if network is None else CONNECT_S + CALL_DELAYS * num_workers * network.worst.delay_s


def patience_s(network: EmulatedNetwork | None) -> float:
    """How much longer than usual all workers may wait without progress: TCP resends lost packets only after a while."""
    return 0.0 if network is None else 4 * network.worst.delay_s + (LOST_S if network.worst.loss else 0.0)


class SlowNetwork:
    """The namespaces of a run's workers, and the process of the relay between them."""

    def __init__(self, network: EmulatedNetwork, num_workers: int, seed: int) -> None:
        self.carried = Carried()
        self._network = network
        plan = RelayPlan([_line(network.link(worker)) for worker in range(num_workers)], seed)
        self._end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.settimeout(MAKE_S_MAX)
        with theirs:
            self._relay = subprocess.Popen(
                python_module(
                    "weft.engines.netem.relay",
                    [str(theirs.fileno()), str(os.getpid()), msgspec.json.encode(plan).decode()],
                ),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.namespaces: list[int] = []
        """Descriptors of the namespaces, in order of rank; the caller closes them."""
        try:
            while len(self.namespaces) < num_workers:
                self._take_namespaces()
        except BaseException:
            for namespace in self.namespaces:
                os.close(namespace)
            self.close()
            raise
        self._end.setblocking(False)

    def _take_namespaces(self) -> None:
        raw, some, _, _ = socket.recv_fds(self._end, 1 << 12, FDS_PER_MESSAGE)
        self.namespaces += some
        error = msgspec.json.decode(raw, type=Carried).error if raw else "its relay ended"
        if error:
            raise ConfigError(
                f"--net: the network cannot be made: {error}.\n  Give the container that right, {OTHERWISE}"
            )

    def fileno(self) -> int:
        """A descriptor that is readable when the relay has sent its figures."""
        return self._end.fileno()

    def hear(self) -> None:
        """Take the relay's latest figures; raises NodeLost if it is gone."""
        try:
            while raw := self._end.recv(1 << 12):
                self.carried = msgspec.json.decode(raw, type=Carried)
        except BlockingIOError:
            return
        raise NodeLost(f"the relay of the slow network ended with code {self._relay.wait()}.\n  Run it again.")

    def conclude(self) -> dict[str, Any]:
        """End the relay; returns the network's settings and what it carried, as plain data."""
        self._end.settimeout(CONCLUDE_S_MAX)
        self._end.shutdown(socket.SHUT_WR)
        with suppress(NodeLost, TimeoutError):  # the relay sends its last figures, and ends
            self.hear()
        told = msgspec.structs.asdict(self.carried)
        own = {str(worker): to_builtins(_line(link)) for worker, link in self._network.own}
        return {**to_builtins(_line(self._network)), "own": own, **{name: told[name] for name in FIGURES}}

    def close(self) -> None:
        """Kill the relay; the kernel removes its devices."""
        self._end.close()
        self._relay.kill()
        self._relay.wait()


def _line(link: EmulatedNetwork) -> EmulatedLink:
    return EmulatedLink(link.bytes_per_s, link.delay_s, link.loss)
