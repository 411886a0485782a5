"""The worker actor: a Ray actor that starts one worker's process, and waits for it."""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

import weft
from weft.config.settings import Settings
from weft.engines.hosts.interfaces import VARIABLE, own_address
from weft.engines.hosts.worker_info import worker_info
from weft.engines.real.child_processes import start_apart
from weft.engines.real.worker_env import worker_env
from weft.interpreter import python_module
from weft.transports.door import listen

ANY_PORT = 9
"""A port for `own_address`, which only asks for the route: nothing is sent to it."""
WORDS_BYTES_MAX = 16 << 10
"""At most this many bytes are kept of what a process wrote before the host agent read its output."""


class Roll(Struct, frozen=True):
    """Argument of 'present': the worker's rank, its script, and the launcher's address."""

    rank: int
    script: str | None
    launcher: str


class Begin(Struct, frozen=True):
    """Argument of 'begin': how to start the worker's process. Secrets come to it from the host agent."""

    token: str
    host: int
    rank: int
    threads: int
    keeps_memory: bool


class Exam(Struct, frozen=True):
    """Argument of 'examine': the actor's part in a check-up of the cluster, and the address of its rendezvous."""

    rank: int
    num_actors: int
    launcher: str
    host: str
    port: int
    secret: bytes
    script: str | None


class ActorOrders(Struct, frozen=True):
    """From the actor to the worker's process, on its standard input: its rank, and how to find its host agent."""

    actor: int
    """The pid of the actor's process; the worker ends when that process does."""
    token: str
    host: int
    rank: int


class ProcessEnded(Struct, frozen=True):
    """Answer of 'wait': the process's exit code, and what it wrote before the host agent read its output."""

    code: int
    words: str


class WorkerActor:
    """The actor of one worker. It performs all commands in one thread: PR_SET_PDEATHSIG, by which the worker ends with
    its actor, acts when the *thread* that started the worker ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None

    def do(self, command: str, argument: bytes) -> bytes:
        """Perform a command. Its argument and result are bytes (JSON), so that no data is unpickled."""
        commands = {
            "present": self._present,
            "begin": self._begin,
            "agent": self._start_agent,
            "wait": self._wait,
            "port": self._find_port,
            "examine": self._examine,
        }
        return commands[command](argument)

    def _present(self, argument: bytes) -> bytes:
        """The worker info of this actor's process."""
        roll = msgspec.json.decode(argument, type=Roll)
        address = own_address(os.environ.get(VARIABLE), roll.launcher, ANY_PORT)
        script = None if roll.script is None else Path(roll.script)
        return msgspec.json.encode(worker_info(roll.rank, address, script, Settings()))

    def _begin(self, argument: bytes) -> bytes:
        """Start the worker's process, which inherits folder, devices and environment from Ray; returns its pid."""
        begin = msgspec.json.decode(argument, type=Begin)
        ours = worker_env(os.environ, begin.threads, keeps_memory=begin.keeps_memory)
        own = str(Path(weft.__file__).parents[1])
        paths = [own, *ours.get("PYTHONPATH", "").split(os.pathsep)]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (until the process has ended)
        self._process = subprocess.Popen(
            python_module("weft.engines.ray.worker_main"),
            stdin=subprocess.PIPE,
            stdout=self._words,
            stderr=self._words,
            env={**ours, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as orders:  # if it has ended, 'wait' will tell how
            orders.write(msgspec.json.encode(ActorOrders(os.getpid(), begin.token, begin.host, begin.rank)))
        return b"%d" % self._process.pid

    def _start_agent(self, argument: bytes) -> bytes:
        """Start the host agent, with the orders in `argument`."""
        start_apart("the host agent", ["weft.engines.hosts.agent"], argument)
        return b""

    def _wait(self, argument: bytes) -> bytes:
        """Block until the worker's process has ended; returns `ProcessEnded`."""
        assert self._process is not None
        assert self._words is not None
        code = self._process.wait()
        with self._words as file:
            file.seek(0)
            return msgspec.json.encode(ProcessEnded(code, file.read(WORDS_BYTES_MAX).decode(errors="replace")))

    def _find_port(self, argument: bytes) -> bytes:
        """A free TCP port at the IP address in `argument`."""
        with listen(argument.decode()) as listener:
            return b"%d" % listener.getsockname()[1]

    def _examine(self, argument: bytes) -> bytes:
        """Take part in a check-up of the cluster; only the first actor returns its result."""
        from weft.adapters.torch.rendezvous import TorchRendezvous  # imports torch
        from weft.engines.diagnose.cluster.run import probe

        exam = msgspec.json.decode(argument, type=Exam)
        rendezvous = TorchRendezvous.at(exam.host, exam.port, "doctor", is_host=exam.rank == 0)
        address = own_address(os.environ.get(VARIABLE), exam.launcher, ANY_PORT)
        script = None if exam.script is None else Path(exam.script)
        return msgspec.json.encode(probe(exam.rank, exam.num_actors, rendezvous, exam.secret, address, script=script))
