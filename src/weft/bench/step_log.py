"""The log that each process of `weft bench recovery` keeps: which steps it began, which it committed, and when.

A process appends lines to a file of its own, RANK.PID, in the run's folder. A line is one write, but where it crosses a
page the kernel shows its first part sooner, and SIGKILL may leave only that: a line counts when its end is there.
Times are CLOCK_MONOTONIC's, which all processes of a machine share.

    started TIME RANK       the process can be killed from now on
    began TIME SAMPLES      it has taken a batch
    committed TIME STEP     the optimizer has updated the model with the averaged gradient of that batch
    scored TIME ACCURACY    of the trained model, after the last step
"""

import json
import mmap
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from weft.parent_death import die_with_parent

LAST_STEP = "last_step"
"""The file with the number of the step after which all processes end; 0 until the benchmark has decided."""
WORD_BYTES = 8


@dataclass(frozen=True)
class RecoveryTask:
    """What each process of a run is told, in one argument."""

    folder: str
    data: str
    num_workers: int
    batch_size: int
    lr: float
    snapshot_steps: int
    seed: int
    width: int = 32

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def own_recovery_task() -> RecoveryTask:
    """The task of this process, which ends with its parent."""
    die_with_parent()
    return RecoveryTask(**json.loads(sys.argv[1]))


class StepLog:
    """The log of this process while it trains."""

    def __init__(self, folder: str, rank: int) -> None:
        self._file = os.open(Path(folder, f"{rank}.{os.getpid()}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with Path(folder, LAST_STEP).open("rb") as file:
            self._last_step = memoryview(mmap.mmap(file.fileno(), WORD_BYTES, prot=mmap.PROT_READ)).cast("q")
        self._write("started", rank)

    def began(self, num_samples: int) -> None:
        self._write("began", num_samples)

    def committed(self, step: int) -> bool:
        """The update of step `step`, from 1, is made. True: it was the last one."""
        self._write("committed", step)
        return 0 < self._last_step[0] <= step

    def scored(self, accuracy: float) -> None:
        self._write("scored", accuracy)

    def _write(self, kind: str, number: float) -> None:
        os.write(self._file, f"{kind} {time.monotonic():.6f} {number}\n".encode())


@dataclass
class LoggedStep:
    """A batch that a process took; `step` and `committed_s` are None unless the update was made."""

    began_s: float
    num_samples: int
    step: int | None = None
    committed_s: float | None = None


@dataclass
class ProcessLog:
    """What one process has logged so far: one incarnation of the worker `rank`."""

    rank: int
    pid: int
    started_s: float | None = None
    steps: list[LoggedStep] = field(default_factory=list)
    accuracy: float | None = None

    def take(self, line: str) -> None:
        """One more line of its log."""
        kind, time_s, number = line.split()
        if kind == "started":
            self.started_s = float(time_s)
        elif kind == "began":
            self.steps.append(LoggedStep(float(time_s), int(number)))
        elif kind == "committed":
            self.steps[-1].step, self.steps[-1].committed_s = int(number), float(time_s)
        else:
            self.accuracy = float(number)

    @property
    def last_step(self) -> int:
        """The number of the last step that it has committed; 0: none."""
        return max((logged.step for logged in self.steps[-2:] if logged.step is not None), default=0)


class LogFolder:
    """The logs of a run, as the benchmark's process follows them; each reading takes what is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._logs: dict[Path, ProcessLog] = {}
        (folder / LAST_STEP).write_bytes(bytes(WORD_BYTES))

    @property
    def logs(self) -> list[ProcessLog]:
        """Of all processes so far, those that died, too, in the order of their starts."""
        return sorted(self._logs.values(), key=lambda log: log.started_s or 0.0)

    def read(self) -> list[ProcessLog]:
        """Take what is new, and return the logs of processes that were not known before."""
        new: list[ProcessLog] = []
        for path in self._folder.glob("*.*"):
            rank, _, pid = path.name.partition(".")
            if not (rank.isdigit() and pid.isdigit()):
                continue
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            if not text:
                continue
            if path not in self._logs:
                self._logs[path] = ProcessLog(int(rank), int(pid))
                new.append(self._logs[path])
            self._offsets[path] = self._offsets.get(path, 0) + len(text)
            for line in text.decode().splitlines():
                self._logs[path].take(line)
        return new

    def end_after(self, step: int) -> None:
        """Let every process end after this step."""
        with (self._folder / LAST_STEP).open("r+b") as file:
            file.write(step.to_bytes(WORD_BYTES, sys.byteorder))
