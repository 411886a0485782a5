"""The real `weft run` in a process of its own: what it writes, whom it starts, and what it leaves behind."""

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0
"""How long a test waits for something that will surely come; reached only when it fails."""
STEP_S = 0.005

TRAIN = """
import os, signal, sys, threading, time
import numpy as np
import weft

w = np.zeros(50)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
def say(text):
    os.write(1, f"{text}\\n".encode())
"""
"""The controller of a script that needs little time to start."""

FOREVER = """
say("joined")
for epoch in worker.epochs(10_000):
    for rows in worker.share(30, batch_size=2):
        worker.step({"w": w - rows.mean()})
        if worker.steps == 20:
            say("trains")
say(f"left at {worker.steps}")
"""
"""A training that goes on until somebody ends it."""

MORTAL = """
from weft.core.seat import current

def die():
    os.write(1, f"died at {time.monotonic()}\\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)

if current().rank == int(sys.argv[1]):
    threading.Timer(float(sys.argv[2]), die).start()
"""
"""A worker, the first argument, is killed so many seconds after its script has begun, wherever it is then."""

CONTROLLER, JOIN = TRAIN.split("w = np", 1)
MORTAL_FOREVER = CONTROLLER + MORTAL + "w = np" + JOIN + FOREVER


@dataclass
class Launched:
    """A running `weft run`, by its process id."""

    process: "subprocess.Popen[bytes]"
    mark: bytes
    """What it and all that it starts have in their environment."""
    out: list[str] = field(default_factory=list)
    patience_s: float = PATIENCE_S
    _rest: bytes = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def until(self, text: str, times: int = 1) -> None:
        """Wait until this text stands in so many lines of what it wrote."""

        def read() -> None:
            assert self.process.poll() is None, f"it ended and wrote {self.text}"
            self._read()

        wait_until(
            lambda: sum(text in line for line in self.out) >= times, f"{times} times '{text}'", read, self.patience_s
        )

    def _read(self) -> None:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], STEP_S)[0]:
            return
        raw = os.read(self.process.stdout.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + raw).split(b"\n")
        self.out += [line.decode() for line in lines]

    def processes(self) -> set[int]:
        """It and all that it has started, as far as they live."""
        return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self._is_ours(int(pid))}

    def _is_ours(self, pid: int) -> bool:
        try:
            return self.mark in Path(f"/proc/{pid}/environ").read_bytes() and lives(pid)
        except OSError:
            return False

    def signal(self, number: int) -> float:
        """Send a signal; when that was."""
        os.kill(self.pid, number)
        return time.monotonic()

    def seconds_since(self, moment: float) -> float:
        return time.monotonic() - moment

    def until_processes(self, number: int) -> None:
        """Wait until so many processes belong to it, itself included."""
        wait_until(lambda: len(self.processes()) >= number, f"{number} processes", self._read, self.patience_s)

    def end(self) -> int:
        """Wait for its end, reading all it writes; its exit code."""

        def read() -> None:
            if self.process.poll() is None:
                self._read()

        wait_until(lambda: self.process.poll() is not None, "its end", read, self.patience_s)
        assert self.process.stdout is not None
        rest = self._rest + self.process.stdout.read()
        self.out += rest.decode().splitlines()
        self._rest = b""
        return self.process.returncode

    def leftovers(self, within_s: float = 2.0) -> set[int]:
        """Those of its processes that still live so long after now."""
        deadline = time.monotonic() + within_s
        while (left := self.processes()) and time.monotonic() < deadline:
            select.select([], [], [], STEP_S)
        return left

    @property
    def took_s(self) -> float:
        """From the death of a mortal worker until now."""
        (died,) = [line.rpartition(" ")[2] for line in self.out if "died at" in line]
        return time.monotonic() - float(died)

    @property
    def text(self) -> str:
        return "\n".join(self.out)


@contextmanager
def launched(script: Path, *arguments: object, cwd: Path | None = None, **environment: str) -> Iterator[Launched]:
    """`weft run script` with these arguments; nothing of it is left afterwards, whatever the test found."""
    mark = f"LAUNCHED_BY_TEST={secrets.token_hex(8)}"
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", str(script), *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment, "LAUNCHED_BY_TEST": mark.partition("=")[2]},
        cwd=cwd or script.parent,
        start_new_session=True,
    )
    run = Launched(process, mark.encode())
    try:
        yield run
    finally:
        for pid in run.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_until(
    done: Callable[[], bool], what: str, meanwhile: Callable[[], Any], patience_s: float = PATIENCE_S
) -> None:
    """Do something again and again until something holds."""
    deadline = time.monotonic() + patience_s
    while not done():
        assert time.monotonic() < deadline, f"waited {patience_s} s for {what}"
        meanwhile()


def lives(pid: int) -> bool:
    """It is there; a zombie is not, for whoever should bury it may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
