"""A controller and host agents without workers' scripts: what they say to each other is played by hand."""

import os
import selectors
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any

from weft.engines.hosts.agent_link import CONTROLLER, AgentHeartbeat, AgentLink, Relayed
from weft.engines.hosts.controller import Controller
from weft.engines.hosts.worker_info import WorkerInfo
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.transports.certificates import Authority, contexts
from weft.transports.dialing import dial
from weft.transports.door import listen

SECRET = bytes(range(32))
PATIENCE_S = 20.0


def presences(hosts: list[str], available_bytes: int) -> list[WorkerInfo]:
    """A worker on each of these hosts, in order of rank."""
    return [
        WorkerInfo(
            rank=rank,
            pid=100 + rank,
            home=host,
            host=host,
            address="127.0.0.1",
            cores=2,
            same={},
            python="3.11",
            available_bytes=available_bytes,
        )
        for rank, host in enumerate(hosts)
    ]


class HostAgent:
    """One that a test plays."""

    def __init__(self, address: tuple[str, int], host: int, secret: bytes = SECRET, *, tls: bool = True) -> None:
        self.heard: list[Relayed] = []
        self.ended: list[str] = []
        self.selector = selectors.DefaultSelector()
        context = contexts(Authority.of(secret).issue(host)).call if tls else None
        sock = dial(address, host, CONTROLLER, secret, context, PATIENCE_S, who="the controller")
        self.link = AgentLink(sock, self.selector, self.heard.append, self.ended.append)

    def turn(self) -> None:
        self.link.send(AgentHeartbeat({}))
        for key, _ in self.selector.select(0.01):
            key.data()

    def until(self, kind: type, said: type | None = None) -> Any:
        """The controller's first message of this kind, to a worker if it is `said`; it hears heartbeats meanwhile."""
        deadline_s = monotonic() + PATIENCE_S
        while True:
            for message in self.heard:
                if isinstance(message, kind) and (said is None or isinstance(getattr(message, "message", None), said)):
                    return message
            assert monotonic() < deadline_s, f"no {kind.__name__} came, only {self.heard}"
            self.turn()

    def close(self) -> None:
        self.link.close()
        self.selector.close()


def new_head(
    folder: Path, hosts: list[str], observer: Observer | None = None, available_bytes: int = 8 << 30
) -> tuple[Controller, tuple[str, int]]:
    """A head that nobody has called yet, and where to call it."""
    script = folder / "train.py"
    script.touch()
    listener = listen("127.0.0.1")
    infos = presences(hosts, available_bytes)
    numbers = tuple(list(dict.fromkeys(hosts)).index(host) for host in hosts)
    job = RealJob(script=script, num_workers=len(hosts), hosts=numbers)
    return Controller(job, observer or Observer(), infos, listener, SECRET), listener.getsockname()


@contextmanager
def sleeper() -> Iterator[int]:
    """A process that does nothing until it is killed; its id."""
    pid = os.fork()
    if not pid:
        signal.pause()
        os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def token() -> str:
    """A name that no other test uses."""
    return token_hex(8)
