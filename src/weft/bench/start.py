"""`weft bench start`: from the command to the first step of 4 workers, against torchrun and DistributedDataParallel."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM
from statistics import mean
from typing import IO, Any

from weft.bench.alternation import alternate
from weft.bench.benchmark import WEFT, Benchmark, Work, work_rows
from weft.bench.contender import BenchmarkContender, script_of, weft_with
from weft.bench.group import LOOPBACK
from weft.core.errors import NodeLost
from weft.engines.calibrate.machine import machine
from weft.engines.real.worker_env import worker_env
from weft.interpreter import python_module
from weft.parent_death import bound_to_this_process

TORCHRUN = "torchrun"
SCRIPT = "weft.bench.contenders.start_script"
WRITES_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
SECONDS_BAR = 3.0
"""Weft's own time is at most so long, by the upper bound."""
START_S_MAX, LEAVE_S_MAX = 120.0, 5.0
LINES_SHOWN = 15


def by_weft(module: str, num_processes: int, folder: str) -> list[str]:
    """Weft as its users start it."""
    return [*weft_with((), module, num_processes, WEFT), folder]


def by_torchrun(module: str, num_processes: int, folder: str) -> list[str]:
    """torchrun as its users start it on one machine."""
    how = ["--standalone", "--nproc-per-node", str(num_processes), str(script_of(module))]
    return python_module("torch.distributed.run", [*how, TORCHRUN, folder])


START = Benchmark(
    name="start",
    unit="seconds from the command to the first step of the last worker, files warm",
    works=(Work("4 workers", "cnn", 4),),
    contenders=(
        BenchmarkContender(WEFT, SCRIPT, launcher=by_weft),
        BenchmarkContender(TORCHRUN, SCRIPT, launcher=by_torchrun),
    ),
    bars={f"{TORCHRUN}/4 workers": 1.0},
    block_s=0.0,
)
"""A block is one start; the two that come first, which warm the files, do not count."""


@dataclass(frozen=True)
class Starts:
    """One contender, whose command is given anew for each repetition; nothing of it is left afterwards."""

    contender: BenchmarkContender
    num_workers: int

    def block(self, repeats: int) -> float:
        """Seconds from the command until all workers had made their first step, on average."""
        return mean(self._once() for _ in range(repeats))

    def _once(self) -> float:
        assert self.contender.launcher is not None
        with tempfile.TemporaryDirectory(prefix="weft-start-") as folder, tempfile.TemporaryFile() as output:
            command = self.contender.launcher(self.contender.module, self.num_workers, folder)
            began_s = time.monotonic()
            process = subprocess.Popen(
                bound_to_this_process(command),  # 20 ms more for either
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,  # Ctrl-C reaches the benchmark alone, which then ends its processes in order
            )
            try:
                code = process.wait(START_S_MAX)
            except subprocess.TimeoutExpired:
                raise self._lost(f"had not ended after {START_S_MAX:.0f} s", output) from None
            finally:
                end(process)
            steps_s = [float(path.read_text()) for path in Path(folder).iterdir()]
            if code != 0:
                raise self._lost(f"ended with exit code {code}", output)
            if len(steps_s) != self.num_workers:
                raise self._lost(f"made steps on {len(steps_s)} of {self.num_workers} workers", output)
        return max(steps_s) - began_s

    def _lost(self, what: str, output: IO[bytes]) -> NodeLost:
        output.seek(0)
        said = output.read().decode(errors="replace").splitlines()[-LINES_SHOWN:]
        words = "\n".join(f"  {line}" for line in said) or "  It said nothing."
        return NodeLost(f"contender '{self.contender.name}' {what}. Its last words:\n{words}")


def environment() -> dict[str, str]:
    """The environment of both: one thread a worker, and compiled modules are kept, so that files get warm."""
    ours = {**worker_env(os.environ, 1, keeps_memory=False), **LOOPBACK}
    return {name: value for name, value in ours.items() if name != WRITES_NO_BYTECODE}


def end(process: "subprocess.Popen[bytes]") -> None:
    """Make sure that it is gone; it is asked first, so that it can end what it has started."""
    for number in (SIGTERM, SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE_S_MAX)


def measure_start(num_rounds: int, benchmark: Benchmark = START, tell: Callable[[str], object] = str) -> dict[str, Any]:
    """The report: in each round every contender starts once, in an order that chance decides."""
    (work,) = benchmark.works
    tell(f"{benchmark.name}: {work.name}")
    starts = {one.name: Starts(one, work.num_processes) for one in benchmark.contenders}
    rows = work_rows(benchmark, work, alternate(starts, num_rounds, benchmark.block_s))
    for row in (row for row in rows if row["contender"] == WEFT):
        row["bar_s"] = SECONDS_BAR
    return {
        "benchmark": benchmark.name,
        "unit": benchmark.unit,
        "blocks": num_rounds,
        "machine": machine(),
        "rows": rows,
        "ratios": {row["rival"]: row["ratio_low"] for row in rows if row.get("counts")},
    }
