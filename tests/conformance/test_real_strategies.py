"""Every strategy over every transport on real workers: learns, uses each sample once an epoch, can be replayed."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch  # noqa: F401  once for all workers that are forked from here
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated
from support.simulated.recipes import RECIPES, VARIANTS

from weft.config.registry import COLLECTIVES
from weft.config.registry import strategy as strategy_of
from weft.runtime.connections import SHM, TCP, TORCH, TRANSPORTS

NUM_WORKERS, NUM_EPOCHS, NUM_SAMPLES = 3, 3, 50
UNTRAINED_LOSS = 47.0
"""Of the parameters with which the script begins."""
APART = "apart"
"""Stands for two workers on a host and one on another: shared memory within, TLS between."""

SCRIPT = """
import sys
import numpy as np
import weft

rng = np.random.default_rng(0)
x = rng.normal(size=(50, 6))
wanted = rng.normal(size=6)
y = x @ wanted + 3.0
w, b = rng.normal(size=6), np.zeros(1)
worker = weft.join(arrays={"w": w, "b": b}, optimizer=weft.SGD(lr=0.15))
worker.tune(lr=(0.05, 0.3))
used = []
for epoch in worker.epochs(3):
    for rows in worker.share(50, batch_size=2):
        error = x[rows] @ w + b - y[rows]
        used.append(rows)
        worker.step({"w": x[rows].T @ error / len(rows), "b": error.mean(keepdims=True)}, loss=float(error @ error))
    worker.report(loss=lambda: float(np.mean((x @ w + b - y) ** 2)), rank=worker.rank)
np.save(f"{sys.argv[1]}/{worker.rank}.npy", np.concatenate([np.zeros(0, int), *used]))
worker.save(f"{sys.argv[1]}/model.safetensors")
"""


class Ran(NamedTuple):
    """What a run told and left."""

    losses: list[float]
    ranks: list[float]
    used: np.ndarray
    replay: list[str]
    told: dict[str, Any]
    saved: dict[str, np.ndarray]


@cache
def ran(strategy: str, transport: str, collective: str | None = None) -> Ran:
    """One run for all tests of it."""
    from safetensors.numpy import load_file

    heard = Heard()
    with TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT)
        where = {"hosts": (0, 0, 1)} if transport == APART else {"transport": transport}
        options = {**where, "collective": collective, "checks_replay": True}
        outcome = real(script, NUM_WORKERS, strategy, folder, heard=heard, **options)
        used = np.concatenate([np.load(f"{folder}/{rank}.npy") for rank in range(NUM_WORKERS)])
        saved = load_file(f"{folder}/model.safetensors")
    reports = [numbers for _, numbers in heard.reports]
    losses, ranks = [r["loss"] for r in reports], [r["rank"] for r in reports]
    return Ran(losses, ranks, used, outcome.replay, outcome.to_json(), saved)


Case = tuple[str, str, str | None]
CASES: list[Case] = [(recipe, transport, None) for recipe in [*RECIPES.values(), *VARIANTS] for transport in TRANSPORTS]
CASES = [case for case in CASES if case[:2] != ("hogwild", "tcp")]  # nothing is shared over sockets
CASES = [case for case in CASES if case[1] != TORCH or strategy_of(case[0]).reduces]  # all else is as over shm
CASES += [(recipe, APART, None) for name, recipe in RECIPES.items() if name != "hogwild"]
CASES += [("sandblaster(backups=False)", transport, None) for transport in (SHM, TCP)]
CASES += [("gossip", TORCH, None)]
CASES += [("allreduce", transport, collective) for transport in (SHM, TCP) for collective in COLLECTIVES]


@pytest.mark.parametrize(("strategy", "transport", "collective"), CASES)
def test_it_learns_from_each_sample_once_per_epoch_scores_what_it_saves_and_can_be_replayed(
    strategy: str, transport: str, collective: str | None
) -> None:
    run = ran(strategy, transport, collective)
    assert len(run.losses) == NUM_EPOCHS
    assert run.losses[-1] < UNTRAINED_LOSS / 10  # how far depends on who is how fast
    uses = np.bincount(run.used, minlength=NUM_SAMPLES)
    if strategy == "sandblaster":  # slow portions are computed twice, on purpose
        assert min(uses) >= NUM_EPOCHS
    else:
        assert uses.tolist() == [NUM_EPOCHS] * NUM_SAMPLES
    assert run.told["samples"] == sum(uses)
    assert run.ranks == [1.0] * NUM_EPOCHS
    assert loss_of(run.saved) == pytest.approx(run.losses[-1], rel=1e-12)
    assert run.replay == []


ASYNCHRONOUS = {"ssp", "asgd", "dc_asgd", "downpour", "quorum", "async_gossip", "push_sum", "hogwild"}
"""Where who comes first decides what is learned (push_sum adds a share that comes early); all else is the seed's."""


@pytest.mark.parametrize("strategy", [r for n, r in RECIPES.items() if n not in ASYNCHRONOUS])
def test_a_synchronous_strategy_gives_the_model_that_the_simulator_gives(strategy: str, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    (tmp_path / "train.py").write_text(SCRIPT)
    simulated(tmp_path / "train.py", NUM_WORKERS, strategy, str(tmp_path))
    expected = load_file(tmp_path / "model.safetensors")
    saved = ran(strategy, "shm").saved
    assert set(saved) == set(expected)
    for name, value in saved.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-9, atol=1e-12)


def loss_of(saved: dict[str, np.ndarray]) -> float:
    """On all samples of the script; of an ensemble's members, their mean."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_SAMPLES, 6))
    y = x @ rng.normal(size=6) + 3.0
    prefixes = [name.removesuffix("w") for name in saved if name.endswith("w")]
    return float(np.mean([np.mean((x @ saved[f"{p}w"] + saved[f"{p}b"] - y) ** 2) for p in prefixes]))


@pytest.mark.parametrize(
    ("transport", "collective"),
    [("tcp", None), ("torch", None), (APART, None), *[("shm", name) for name in COLLECTIVES]],
)
def test_all_reduce_gives_the_same_model_however_it_is_spoken(transport: str, collective: str | None) -> None:
    expected = ran("allreduce", "shm").saved
    for name, value in ran("allreduce", transport, collective).saved.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12)
