"""Slow workers of real runs: what is put into one of them is found, soon, and nobody else is blamed."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.processes.real import Heard, fork_from_here
from support.scripts.training_scripts import write

from weft.config.network import read_network
from weft.core.activity import COMPUTES, PAUSED, READS
from weft.engines.local.fork_server import FOLLOW_UPS
from weft.engines.local.forked_workers import Process
from weft.engines.local.launcher import run_local
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.outcome import RealOutcome
from weft.observe.records.linkbook import NETWORK
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame

pytestmark = pytest.mark.clock

NUM_WORKERS = 3
SOON_STEPS = 20
SLEEPS_S = 0.012
"""Iterations sleep rather than compute: then other work on the machine hardly makes them longer."""

ARRAYS = """
import sys
import time
import numpy as np
import weft

iteration_s, slow, slow_iteration_s = map(float, sys.argv[1:])
w = np.zeros(5000)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for rows in worker.share(worker.num_workers * 40, batch_size=1):
    time.sleep(slow_iteration_s if worker.rank == slow else iteration_s)
    worker.step({"w": w}, loss=0.0)
"""
LOADER = """
import sys
import time
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, Dataset

iteration_s, slow, batch_s = map(float, sys.argv[1:])
model = nn.Linear(10, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
worker = weft.join(model, optimizer)

class Samples(Dataset):
    def __len__(self):
        return worker.num_workers * 40
    def __getitem__(self, index):
        time.sleep(batch_s if worker.rank == slow else 0.0)
        return torch.ones(10)

for inputs in worker.share(DataLoader(Samples(), batch_size=1)):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    time.sleep(iteration_s)
    optimizer.step()
"""


class Found:
    """What was said, and what all workers had done by then."""

    def __init__(self) -> None:
        self.blamed: list[Blame] = []
        self.slow: list[list[Blame]] = []

    def observer(self) -> Observer:
        observer = Heard().observer()
        observer.on_blame = self.blamed.append
        observer.on_slow = lambda blames: self.slow.append(list(blames))
        return observer


def run(
    folder: Path,
    observer: Observer,
    text: str = ARRAYS,
    *,
    slow: int = -1,
    seconds: float = 0.0,
    fork: Callable[..., list[Process]] = fork_from_here,
    **options: Any,
) -> RealOutcome:
    """A run in which one worker may take so long for an iteration, or for reading a batch."""
    arguments = tuple(map(str, (SLEEPS_S, slow, seconds)))
    return run_local(
        RealJob(script=write(folder, text), arguments=arguments, num_workers=NUM_WORKERS, **options), observer, fork
    )


def is_found(found: Found, outcome: RealOutcome, worker: int, cause: str, since_step: int = 0) -> bool:
    """Worker and cause were named soon, nobody else was, and the outcome says so."""
    assert {(blame.worker, blame.cause) for blame in found.blamed} == {(worker, cause)}
    assert found.blamed[0].step <= since_step + SOON_STEPS
    assert all(blame.worker == worker for blames in found.slow for blame in blames)
    told = outcome.to_json()
    return bool(told["blame"][0].startswith(f"worker {worker}") and told["blamed"][0]["cause"] == cause)


@pytest.mark.parametrize("strategy", ["allreduce", "async_gossip"])
def test_a_worker_whose_iterations_take_longer_computes_slowly(strategy: str, tmp_path: Path) -> None:
    found = Found()
    outcome = run(tmp_path, found.observer(), slow=1, seconds=5 * SLEEPS_S, strategy=strategy)
    assert is_found(found, outcome, 1, COMPUTES)


@pytest.mark.parametrize("baseline", [None, "ddp"])
def test_a_worker_that_waits_for_its_loader_reads_slowly_and_its_peers_do_not(
    baseline: str | None, tmp_path: Path
) -> None:
    found = Found()
    for name in FOLLOW_UPS["torch"]:  # once here rather than in every worker
        import_module(name)
    outcome = run(tmp_path, found.observer(), LOADER, slow=2, seconds=4 * SLEEPS_S, baseline=baseline)
    assert is_found(found, outcome, 2, READS)
    assert "num_workers" in outcome.blamed[0].advice


@pytest.mark.root
def test_a_worker_with_a_slow_link_is_told_from_its_peers(tmp_path: Path) -> None:
    found = Found()
    network = read_network("1gbit,1ms", "0:20mbit,10ms")
    outcome = run(tmp_path, found.observer(), transport="tcp", network=network)
    assert is_found(found, outcome, 0, NETWORK)


def test_a_worker_that_was_stopped_for_a_while_is_told_to_have_paused(tmp_path: Path) -> None:
    found = Found()
    pids: list[int] = []
    observer = found.observer()
    stopped: list[float] = []

    def fork(number: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        processes = fork_from_here(number, shared, check)
        pids.extend(process.pid for process in processes)
        return processes

    def on_status(status: Status) -> None:
        if status.rank == 1 and status.step >= 10 and not stopped:
            stopped.append(time.monotonic())
            os.kill(pids[1], signal.SIGSTOP)

    def on_turn() -> None:
        if len(stopped) == 1 and time.monotonic() > stopped[0] + 0.4:
            stopped.append(0.0)
            os.kill(pids[1], signal.SIGCONT)

    observer.on_status, observer.on_turn = on_status, on_turn
    outcome = run(tmp_path, observer, fork=fork)
    assert is_found(found, outcome, 1, PAUSED, found.blamed[0].step)
    assert 0.25 < outcome.blamed[0].own_s < 0.9


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_nobody_is_blamed_when_nobody_is_slow(transport: str, tmp_path: Path) -> None:
    found = Found()
    outcome = run(tmp_path, found.observer(), transport=transport)
    assert (found.blamed, outcome.blamed, outcome.to_json()["blame"]) == ([], [], [])
