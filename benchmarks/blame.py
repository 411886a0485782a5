"""Are slow workers found, with the right cause? Slow computing, slow input, slow links and pauses, put into real runs.

python benchmarks/blame.py --runs 20        (as root: links are slowed down in network namespaces)
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from weft.config.network import EmulatedNetwork, read_network
from weft.core.activity import COMPUTES, PAUSED, READS
from weft.engines.calibrate.machine import machine
from weft.engines.local.forked_workers import ForkServer, Process
from weft.engines.local.launcher import fork_server_of, run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.observe.records.linkbook import NETWORK
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks/blame_course.py"
NOTHING = "nothing"
CAUSES = (NOTHING, COMPUTES, READS, NETWORK, PAUSED)
NUM_WORKERS = 4
NUM_STEPS = 45
SOON_STEPS = 20
BAR = 0.95
USUAL_LINK = "1gbit,1ms"


@dataclass
class Trial:
    """One run with one thing wrong, drawn by its seed, and what was said of it."""

    cause: str
    seed: int
    worker: int = 0
    how: str = ""
    since_step: int = 0
    """When it begins."""
    blamed: list[Blame] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """The one to blame was named for the right cause, soon, and nobody else was."""
        said = {(blame.worker, blame.cause) for blame in self.blamed}
        if self.cause == NOTHING:
            return not said
        soon = [blame for blame in self.blamed if blame.step <= self.since_step + SOON_STEPS]
        return said == {(self.worker, self.cause)} and bool(soon)

    def row(self) -> dict[str, object]:
        told = [str(blame) for blame in self.blamed]
        at = self.blamed[0].step - self.since_step if self.blamed else None
        return {"cause": self.cause, "seed": self.seed, "worker": self.worker, "how": self.how, "told": told,
                "after_steps": at, "right": self.is_right, "seconds": self.seconds}  # fmt: skip


class Stopper:
    """Stops one worker's process at a step, and lets it go on after a while."""

    def __init__(self, worker: int, step: int, seconds: float) -> None:
        self._worker, self._step, self._seconds = worker, step, seconds
        self._pid = 0
        self._until_s: float | None = None
        self.at_step = step

    def adopt(self, processes: Sequence[Process]) -> None:
        self._pid = processes[self._worker].pid

    def hear(self, status: Status) -> None:
        if status.rank == self._worker and status.step >= self._step and self._until_s is None:
            self.at_step = status.step
            os.kill(self._pid, signal.SIGSTOP)
            self._until_s = time.monotonic() + self._seconds

    def look(self) -> None:
        if self._until_s is not None and 0 < self._until_s <= time.monotonic():
            os.kill(self._pid, signal.SIGCONT)
            self._until_s = 0.0


def job_of(trial: Trial, rng: Random) -> RealJob:
    """A run with the trial's fault in it; a pause comes later."""
    arguments: tuple[str, ...] = ("--steps", str(NUM_STEPS))
    slow: dict[int, float] = {}
    network: EmulatedNetwork | None = None
    if trial.cause == COMPUTES:
        slow[trial.worker] = round(rng.uniform(2.0, 4.0), 1)
        trial.how = f"--slow {trial.worker}:{slow[trial.worker]}"
    elif trial.cause == READS:
        read_s = round(rng.uniform(0.015, 0.04), 3)
        arguments += ("--slow-reader", str(trial.worker), "--read-s", str(read_s))
        trial.how = f"{1e3 * read_s:.0f} ms a batch"
    elif trial.cause == NETWORK:
        own = f"{trial.worker}:{rng.choice(('50mbit,10ms', '20mbit,20ms', '100mbit,15ms'))}"
        network = read_network(USUAL_LINK, own)
        trial.how = f"--net {USUAL_LINK} --net {own}"
    elif trial.cause == NOTHING and trial.seed % 2:
        network = read_network(USUAL_LINK)
        trial.how = f"--net {USUAL_LINK}"
    transport = "shm" if network is None else "tcp"
    return RealJob(
        script=SCRIPT,
        arguments=arguments,
        num_workers=NUM_WORKERS,
        transport=transport,
        seed=trial.seed,
        slow=slow,
        network=network,
    )


def run(cause: str, seed: int, fork_server: ForkServer) -> Trial:
    """One trial."""
    rng = Random(f"{cause}/{seed}")
    trial = Trial(cause, seed, rng.randrange(NUM_WORKERS))
    job = job_of(trial, rng)
    stopper = Stopper(trial.worker, rng.randrange(8, 20), round(rng.uniform(0.3, 1.0), 2))
    fork = fork_server.fork
    observer = Observer(on_blame=trial.blamed.append)
    if cause == PAUSED:
        observer.on_status, observer.on_turn = stopper.hear, stopper.look

        def fork(number: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
            processes = fork_server.fork(number, shared, check)
            stopper.adopt(processes)
            return processes

    trial.seconds = run_local(job, observer, fork).wall_s
    if cause == PAUSED:
        trial.since_step, trial.how = stopper.at_step, f"stopped for {stopper._seconds} s at step {stopper.at_step}"
    return trial


def main() -> int:
    """A line for each run and one for each cause. Writes benchmarks/results/blame.json; fails below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each cause")
    parser.add_argument("--cause", choices=CAUSES, action="append", help="only this one; nothing is written then")
    options = parser.parse_args()
    trials: list[Trial] = []
    with fork_server_of(RealJob(script=SCRIPT)) as fork_server:
        for seed in range(options.runs):
            for cause in options.cause or CAUSES:
                trials.append(run(cause, seed, fork_server))
                row = trials[-1].row()
                print("right" if row["right"] else "WRONG", os.getloadavg()[0], row, flush=True)
    shares = {}
    for cause in options.cause or CAUSES:
        right = [trial.is_right for trial in trials if trial.cause == cause]
        shares[cause] = sum(right) / len(right)
        print(f"{cause}: {sum(right)} of {len(right)}")
    if not options.cause:
        report = {"benchmark": "blame", "bar": BAR, "machine": machine(), "load": os.getloadavg()[1]}
        report |= {"right": shares, "rows": [trial.row() for trial in trials]}
        (ROOT / "benchmarks/results/blame.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(share >= BAR for share in shares.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
