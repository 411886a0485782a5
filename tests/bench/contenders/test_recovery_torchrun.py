"""The script of torchrun's contender in `weft bench recovery`."""

import socket
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from support.scripts.mnist_files import write_mnist
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

from weft.bench.contenders.recovery_course import model_and_optimizer
from weft.bench.contenders.recovery_torchrun import SNAPSHOT, batches_from, load_snapshot, main, save_snapshot
from weft.bench.step_log import LogFolder, RecoveryTask


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecoveryTask:
    """Of a single process, as torchrun would start it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    return RecoveryTask(str(tmp_path), str(write_mnist(tmp_path, train=80)), 1, 8, 0.02, 5, 0, width=2)


@pytest.mark.processes
def test_it_takes_a_snapshot_every_few_steps_and_goes_on_from_the_last_one(task: RecoveryTask, tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    for last_step in (12, 14):
        folder.end_after(last_step)
        process = get_context("fork").Process(target=main, args=(task,))
        process.start()
        process.join()
        assert process.exitcode == 0
    folder.read()
    first, second = folder.logs
    assert [logged.step for logged in first.steps] == list(range(1, 13))
    assert first.accuracy is not None
    assert [logged.step for logged in second.steps] == [11, 12, 13, 14]


def test_a_snapshot_has_parameters_momentum_and_its_step(task: RecoveryTask, tmp_path: Path) -> None:
    model, optimizer = model_and_optimizer(task)
    assert load_snapshot(tmp_path / SNAPSHOT, model, optimizer) == 0
    model(torch.zeros(1, 28, 28)).sum().backward()
    optimizer.step()
    save_snapshot(tmp_path / SNAPSHOT, model, optimizer, 41)
    fresh, its_optimizer = model_and_optimizer(task)
    assert load_snapshot(tmp_path / SNAPSHOT, fresh, its_optimizer) == 41
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters()))
    momenta = [one["momentum_buffer"] for one in its_optimizer.state.values()]
    assert all(torch.equal(a, b["momentum_buffer"]) for a, b in zip(momenta, optimizer.state.values(), strict=True))
    assert not list(tmp_path.glob("*.unfinished"))


def test_batches_go_on_in_the_middle_of_an_epoch_and_every_epoch_has_an_order_of_its_own() -> None:
    data = TensorDataset(torch.arange(20), torch.arange(20))

    def taken(step: int, number: int) -> list[list[int]]:
        sampler: DistributedSampler[int] = DistributedSampler(data, 2, 1, seed=3)
        batches = batches_from(step, data, sampler, 4)
        return [next(batches)[0].tolist() for _ in range(number)]

    whole = taken(0, 6)
    assert [len(batch) for batch in whole] == [4, 4, 2] * 2
    assert taken(2, 4) == whole[2:]
    assert whole[:3] != whole[3:]
