"""Real workers on several hosts: they learn what those of one host learn, and a host sends as if it had one worker."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes.real import real

from weft.core.errors import ConfigError
from weft.engines.real.job import spread

SCRIPT = """
import sys
import numpy as np
import weft

folder, num_elements = sys.argv[1], int(sys.argv[2])
w = np.linspace(-1.0, 1.0, num_elements)
b = np.arange(7.0)
rows_all = weft.once(lambda: np.random.default_rng(0).normal(size=(84, 1)))
worker = weft.join(arrays={"w": w, "b": b}, optimizer=weft.Momentum(lr=0.05))
for epoch in worker.epochs(4):
    for rows in worker.share(84, batch_size=2):
        mean = rows_all[rows].mean()
        worker.step({"w": w - mean, "b": 0.5 * b - mean}, samples=len(rows), loss=float((w * w).sum()))
    worker.report(norm=lambda: float(np.abs(w).sum()))
np.savez(f"{folder}/{worker.rank}.npz", w=w, b=b)
"""


def trained(folder: Path, num_workers: int, num_hosts: int, strategy: str = "allreduce", **options: Any) -> Any:
    """The parameters of every worker, and what the run says of itself."""
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(SCRIPT)
    num_elements = options.pop("num_elements", 500)
    hosts = spread(num_workers, num_hosts)
    outcome = real(script, num_workers, strategy, folder, num_elements, hosts=hosts, **options)
    arrays = [np.load(folder / f"{rank}.npz") for rank in range(num_workers)]
    return [np.concatenate([each["w"], each["b"]]) for each in arrays], outcome.to_json()


@pytest.mark.parametrize(
    ("num_workers", "num_hosts", "transport"), [(4, 2, "shm"), (7, 3, "shm"), (3, 3, "shm"), (4, 2, "torch")]
)
def test_allreduce_learns_on_several_hosts_what_it_learns_on_one(
    num_workers: int, num_hosts: int, transport: str, tmp_path: Path
) -> None:
    expected, _ = trained(tmp_path / "one", num_workers, 1)
    params, told = trained(tmp_path / "several", num_workers, num_hosts, transport=transport)
    assert all(np.array_equal(params[0], other) for other in params)
    assert np.allclose(params[0], expected[0], rtol=1e-9, atol=1e-12)
    assert told["hosts"] == num_hosts
    assert told["refused"] == 0


@pytest.mark.parametrize(
    "strategy", ["ssp(staleness=2)", "gossip", "async_gossip", "local_sgd(period=3)", "ps(servers=3)", "easgd"]
)
def test_other_strategies_train_on_several_hosts_too(strategy: str, tmp_path: Path) -> None:
    params, told = trained(tmp_path, 4, 2, strategy)
    assert all(np.isfinite(each).all() for each in params)
    start = np.concatenate([np.linspace(-1.0, 1.0, 500), np.arange(7.0)])
    assert np.abs(params[0]).sum() < 0.7 * np.abs(start).sum()
    assert told["bytes_between_hosts"] > 0


def test_a_host_of_four_workers_sends_as_many_bytes_as_one_of_a_single_worker(tmp_path: Path) -> None:
    about: dict[str, Any] = {"num_elements": 50_000, "steps_max": 20}
    _, alone = trained(tmp_path / "alone", 2, 2, **about)
    _, crowd = trained(tmp_path / "crowd", 8, 2, **about)
    whole = 2 * alone["steps"] * 50_007 * 8  # both hosts say each number once in a step
    # a worker that has ended does not know yet that its last message has arrived
    last = 2 * 25_004 * 8
    assert whole - last < alone["bytes_between_hosts"] < 1.02 * whole
    assert crowd["bytes_between_hosts"] == pytest.approx(alone["bytes_between_hosts"], rel=0.05)


@pytest.mark.parametrize("coding", ["topk(0.01)", "onebit", "fp16"])
def test_what_is_coded_is_summed_on_each_host_first_and_crosses_once(coding: str, tmp_path: Path) -> None:
    about: dict[str, Any] = {"num_elements": 400_000, "steps_max": 20, "compress": coding}
    _, alone = trained(tmp_path / "alone", 2, 2, **about)
    params, crowd = trained(tmp_path / "crowd", 8, 2, **about)
    assert all(np.array_equal(params[0], other) for other in params)
    # 15 more connections, whose ends shake hands; and of the last messages, 2 of 40, it may not be known that they came
    expected = alone["bytes_between_hosts"] + 30 * 2_680
    assert crowd["bytes_between_hosts"] == pytest.approx(expected, rel=0.07)


SKIPPING_IN_TORCH = """
import torch
import weft

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worker = weft.join(model, optimizer)
for step in range(6):
    optimizer.zero_grad()
    worker.count(2)
    model(torch.ones(2, 4)).sum().backward()
    if step != 3 or worker.rank < 2:
        optimizer.step()
"""


def test_a_step_that_one_host_skips_and_another_makes_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SKIPPING_IN_TORCH)
    with pytest.raises(ConfigError, match="on different hosts, have not skipped the same steps") as raised:
        real(script, 3, "allreduce", hosts=(0, 0, 1))
    assert "Skip a step on all workers or on none" in str(raised.value)
