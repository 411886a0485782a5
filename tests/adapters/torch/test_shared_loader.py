"""Shares of a DataLoader: every sample once, and refusals of what has no places to deal out."""

from pathlib import Path

import pytest
from scripts import SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write

from weft.core.errors import ConfigError


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
            "DataLoader(loader.dataset, batch_size=None)",
            "the loader has no batch_size, so its batches cannot be shared.\n  Give it one.",
        ),
        (
            "loader.dataset",
            "share() was given data without places to deal out.\n"
            "  Give it a DataLoader over a dataset that has a length and is read by index.",
        ),
        (
            "DataLoader(torch.utils.data.ChainDataset([]), batch_size=3)",
            "share() was given data without places to deal out.\n"
            "  Give it a DataLoader over a dataset that has a length and is read by index.",
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
