"""Shares of a DataLoader: every sample once, divided by places or taken in turn, and refusals of what is neither."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.scripts.training_scripts import SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write
from torch import nn
from torch.utils.data import DataLoader

import weft
from weft.core.errors import ConfigError, NodeLost


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    ("num_samples", "num_workers", "batch_size"), [(12, 1, 5), (12, 3, 2), (13, 3, 2), (7, 7, 4), (29, 4, 3)]
)
def test_every_sample_is_dealt_once_in_an_epoch(
    tmp_path: Path, num_samples: int, num_workers: int, batch_size: int, drop_last: bool
) -> None:
    text = f"""
    data = TensorDataset(torch.arange({num_samples}))
    loader = DataLoader(data, batch_size={batch_size}, shuffle=True, drop_last={drop_last})
    for epoch in worker.epochs(2):
        for (rows,) in worker.share(loader):
            SEEN.append((epoch, worker.steps, worker.rank, rows.tolist()))
            optimizer.zero_grad()
            model(x[:1]).sum().backward()
            optimizer.step()
    """
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, text), num_workers)
    orders = [[row for e, _, _, rows in sorted(SEEN) if e == epoch for row in rows] for epoch in (0, 1)]
    size = num_workers * batch_size
    dealt = max(num_samples // size * size, min(num_samples, size)) if drop_last else num_samples
    for order in orders:
        assert len(set(order)) == len(order) == dealt
        assert set(order) <= set(range(num_samples))
    assert orders[0] != orders[1]
    assert len(set(outcome.facts.steps)) == 1, "all workers have the same number of steps"


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (
            "loader.dataset",
            "share() was given a dataset without a batch_size.\n  Use worker.share(dataset, batch_size=32).",
        ),
        (
            "26",
            "share() was given a int, which has no batches.\n"
            "  Give it a DataLoader, a dataset with batch_size=32, an iterable of batches, or a number of samples.",
        ),
        (
            "x",
            "share() was given a Tensor, which has no batches.\n"
            "  Give it a DataLoader, a dataset with batch_size=32, an iterable of batches, or a number of samples.",
        ),
        (
            "[(x, y)]",
            "share() was given 1 batches for 2 workers, and each takes one in turn.\n"
            "  Use at most 1 workers, or smaller batches.",
        ),
        (
            "DataLoader(x, 3, sampler=torch.utils.data.DistributedSampler(x, 2, worker.rank))",
            "the loader's DistributedSampler takes 1 of 2 parts of the data already, of which share() would take a "
            "part again.\n  Leave the sampler out, or say worker.share(loader, sharded=True).",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, loader: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, TORCH, TORCH_JOIN, f"loader = {loader}", TORCH_TRAIN), 2)
    assert str(refused.value) == message


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("num_samples", "num_workers", "batch_size"), [(12, 1, 5), (13, 3, 2), (3, 7, 4), (29, 4, 3)])
def test_portions_that_the_strategy_hands_out_are_batches_of_the_loader(
    tmp_path: Path, num_samples: int, num_workers: int, batch_size: int, drop_last: bool
) -> None:
    text = f"""
    data = TensorDataset(torch.arange({num_samples}))
    collate = lambda rows: torch.stack([row for (row,) in rows]) + 100
    loader = DataLoader(data, {batch_size}, shuffle=True, drop_last={drop_last}, collate_fn=collate)
    for epoch in worker.epochs(2):
        for rows in worker.share(loader):
            SEEN.append((epoch, (rows - 100).tolist()))
            optimizer.zero_grad()
            model(x[:1]).sum().backward()
            optimizer.step()
    """
    simulated(write(tmp_path, TORCH, TORCH_JOIN, text), num_workers, "sandblaster(backups=False)")
    orders = [[row for e, rows in SEEN if e == epoch for row in rows] for epoch in (0, 1)]
    whole = num_samples // batch_size * batch_size
    for order in orders:
        assert len(set(order)) == len(order) == (whole or num_samples if drop_last else num_samples)
        assert set(order) <= set(range(num_samples))


STREAMS = """
import random

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        rows = list(range(26))
        random.shuffle(rows)
        if torch.utils.data.get_worker_info() is None:
            torch.randperm(3)
        yield from (torch.tensor(row) for row in rows)

class Batches(torch.utils.data.Sampler):
    # of 1, 2, 3, ... samples, without a length
    def __iter__(self):
        rows = torch.randperm(26).tolist()
        for size in range(1, 7):
            yield [rows.pop() for _ in range(size)]

whole = {"stream": DataLoader(Stream(), batch_size=4), "items": Stream(),
         "sampled": DataLoader(torch.arange(26), batch_sampler=Batches()),
         "unbatched": DataLoader(torch.arange(26).reshape(13, 2), batch_size=None, shuffle=True),
         "processes": DataLoader(Stream(), batch_size=4, num_workers=1)}[sys.argv[1]]
size = {"items": 4}.get(sys.argv[1])
for epoch in worker.epochs(2):
    for rows in worker.share(whole, size):
        SEEN.append((epoch, worker.rank, rows.tolist()))
        optimizer.zero_grad()
        model(x[:1]).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("kind", "num_workers", "steps", "samples"),
    [
        ("stream", 1, 7, 26),
        ("stream", 3, 2, 24),
        ("items", 3, 2, 24),
        ("sampled", 2, 3, 21),
        ("unbatched", 2, 6, 24),
        ("unbatched", 1, 13, 26),
        ("processes", 2, 3, 24),
    ],
)
def test_what_comes_in_batches_is_taken_in_turn_in_an_order_that_all_workers_find(
    tmp_path: Path, kind: str, num_workers: int, steps: int, samples: int
) -> None:
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, STREAMS), num_workers, "allreduce", kind)
    assert outcome.facts.steps == [2 * steps] * num_workers
    assert outcome.facts.samples == 2 * samples
    orders = [[row for e, _, rows in SEEN if e == epoch for row in rows] for epoch in (0, 1)]
    assert [len(set(order)) for order in orders] == [samples, samples]
    assert orders[0] != orders[1]


SHARED = """
shared = worker.share(loader)
SEEN.append((len(shared), shared.batch_size, shared.dataset is loader.dataset, shared.sampler is loader.sampler))
for epoch in worker.epochs(2):
    num_batches = 0
    for i, (inputs, labels) in enumerate(shared):
        num_batches += 1
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    SEEN.append(num_batches)
"""


@pytest.mark.parametrize(("num_workers", "num_batches"), [(1, 9), (2, 5), (4, 2)])
def test_a_share_is_made_once_and_has_the_length_and_all_else_of_its_loader(
    tmp_path: Path, num_workers: int, num_batches: int
) -> None:
    simulated(write(tmp_path, TORCH, TORCH_JOIN, SHARED), num_workers)
    assert SEEN.count((num_batches, 3, True, True)) == num_workers
    assert SEEN.count(num_batches) == 2 * num_workers


def test_the_length_of_what_is_handed_out_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match="raised TypeError at step 0: batches are handed out while an epoch goes on"):
        simulated(write(tmp_path, TORCH, TORCH_JOIN, SHARED), 2, "sandblaster")


def test_a_loader_that_divides_itself_is_taken_whole(tmp_path: Path) -> None:
    text = """
    sampler = torch.utils.data.DistributedSampler(x, 2, worker.rank)
    shared = worker.share(DataLoader(x, 4, sampler=sampler), sharded=True)
    for epoch in worker.epochs(2):
        shared.sampler.set_epoch(epoch)
        for rows in shared:
            optimizer.zero_grad()
            model(rows).sum().backward()
            optimizer.step()
    SEEN.append(len(shared))
    """
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 2)
    assert (SEEN, outcome.facts.steps, outcome.facts.samples) == ([4, 4], [8, 8], 2 * 26)


def test_alone_a_share_is_the_loader(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    worker = weft.join(model, torch.optim.SGD(model.parameters()))
    loader: DataLoader[Any] = DataLoader(torch.arange(6), batch_size=4)  # type: ignore[arg-type]
    shared = worker.share(loader)
    assert (len(shared), shared.batch_size) == (2, 4)
    assert [[rows.tolist() for rows in shared] for _ in range(2)] == [[[0, 1, 2, 3], [4, 5]]] * 2
    assert list(worker.share(iter("ab"))) == ["a", "b"]
