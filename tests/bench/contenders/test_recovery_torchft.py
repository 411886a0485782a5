"""torchft's contender in `weft bench recovery`, with a stand-in for its library: it is no requirement of the tests."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support.scripts.mnist_files import write_mnist
from torch.utils.data.distributed import DistributedSampler

from weft.bench.step_log import LogFolder, RecoveryTask
from weft.interpreter import python_code

NAME = "weft.bench.contenders.recovery_torchft"


class StandInQuorum:
    """It heals in its first step, and its third one is not committed."""

    def __init__(self, **said: Any) -> None:
        self.said = said
        self.step = 0
        self.turn = 0

    def current_step(self) -> int:
        return self.step

    def is_participating(self) -> bool:
        return self.turn > 1

    def shutdown(self, *, wait: bool) -> None:
        assert not wait


class StandInOptimizer:
    """Commits what the manager lets it."""

    def __init__(self, manager: StandInQuorum, plain: Any) -> None:
        self.manager, self.plain = manager, plain

    def zero_grad(self) -> None:
        self.manager.turn += 1
        if self.manager.turn == 1:
            self.manager.step = 40
        self.plain.zero_grad()

    def step(self) -> None:
        if self.manager.turn != 3:
            self.plain.step()
            self.manager.step += 1


def sampler(data: Any, replica_rank: int, num_replica_groups: int, **group: int) -> Any:
    assert group == {"group_rank": 0, "num_replicas": 1, "seed": 0}
    return DistributedSampler(data, num_replica_groups, replica_rank)


@pytest.fixture
def contender(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, imported with the stand-in."""
    library = SimpleNamespace(
        DistributedDataParallel=lambda manager, model: model,
        DistributedSampler=sampler,
        Manager=StandInQuorum,
        Optimizer=StandInOptimizer,
        ProcessGroupGloo=lambda timeout: timeout,
    )
    monkeypatch.setitem(sys.modules, "torchft", library)
    monkeypatch.setitem(sys.modules, "torchft.coordination", SimpleNamespace(LighthouseServer=None))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME)


def test_only_steps_that_it_has_a_part_in_and_that_are_committed_count(contender: ModuleType, tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    folder.end_after(44)
    task = RecoveryTask(str(tmp_path), str(write_mnist(tmp_path, train=80)), 2, 8, 0.02, 5, 0, width=2)
    contender.replicate(task, 0, "http://nowhere")
    (log,) = folder.read()
    assert [logged.step for logged in log.steps] == [None, 42, None, 43, 44]
    assert log.accuracy is not None


@pytest.mark.processes
def test_replicas_that_die_are_started_anew_until_each_has_ended_of_itself(contender: ModuleType) -> None:
    codes = {0: [0], 1: [1, -9, 0]}
    started: list[int] = []

    def start(rank: int) -> subprocess.Popen[bytes]:
        started.append(rank)
        code = codes[rank].pop(0)
        how = "import os; os.kill(os.getpid(), 9)" if code < 0 else f"raise SystemExit({code})"
        return subprocess.Popen(python_code(how))

    contender.keep_running(2, start)
    assert started == [0, 1, 1, 1]
