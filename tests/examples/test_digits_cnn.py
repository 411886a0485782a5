"""The torch example: alone, simulated, and by hand."""

import random
import runpy
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.scripts.training_scripts import simulated
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from weft.adapters.seeding import seed_of
from weft.adapters.torch.order import same_order

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_cnn.py"
ARGUMENTS = ("--epochs", "2", "--batch-size", "16")
NUM_WORKERS = 8
SEED = 7


def run_alone(*arguments: str) -> dict[str, Any]:
    """`python examples/digits_cnn.py ARGUMENTS`, in this process; its names and values at the end."""
    before, sys.argv = sys.argv, [str(EXAMPLE), *arguments]
    try:
        return runpy.run_path(str(EXAMPLE), run_name="__main__")
    finally:
        sys.argv = before


@pytest.fixture(autouse=True)
def _random_states_are_put_back() -> Iterator[None]:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def test_one_simulated_worker_equals_the_script_alone_bit_for_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "alone.safetensors", tmp_path / "simulated.safetensors"]
    alone = run_alone(*ARGUMENTS, "--save", str(paths[0]))
    outcome = simulated(EXAMPLE, 1, None, *ARGUMENTS, "--save", str(paths[1]), seed=SEED)
    for expected, got in zip(alone["model"].parameters(), outcome.replicas[0].model.parameters(), strict=True):
        assert torch.equal(expected, got)
    first, second = (load_file(path) for path in paths)
    assert first.keys() == second.keys() == alone["model"].state_dict().keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    accuracies: list[Any] = [report["accuracy"] for report in outcome.facts.reports]
    told = [f"epoch {epoch:3d}  accuracy {accuracy:.4f}" for epoch, accuracy in enumerate(accuracies, 1)]
    assert capsys.readouterr().out.splitlines() == told
    assert accuracies[-1] > 0.7


def rng_after_joining(rank: int, after_init: torch.Tensor) -> torch.Tensor:
    """The torch state with which a worker's training begins.

    The script seeds torch alike on all workers. Workers above 0 get numbers of their own when they join.
    """
    torch.set_rng_state(after_init)
    if rank:
        torch.manual_seed(seed_of(rank, SEED, torch.initial_seed()))
    return torch.get_rng_state()


class ByHand:
    """Eight models in a plain loop, without Weft."""

    def __init__(self, example: dict[str, Any], epochs: int, batch_size: int) -> None:
        self.data = TensorDataset(example["x"], example["y"])
        self.size = batch_size * NUM_WORKERS
        torch.manual_seed(0)
        first = example["Net"]()
        after_init = torch.get_rng_state()
        self.models = [deepcopy(first) for _ in range(NUM_WORKERS)]
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9) for model in self.models]
        schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(each, epochs) for each in self.optimizers]
        self.states = [rng_after_joining(rank, after_init) for rank in range(NUM_WORKERS)]
        for epoch in range(epochs):
            order = same_order(DataLoader(self.data, batch_size=batch_size, shuffle=True), SEED, epoch)
            for start in range(0, len(order), self.size):
                self.step(order[start : start + self.size])
            for scheduler in schedulers:
                scheduler.step()

    def step(self, rows: list[int]) -> None:
        """One global batch: every worker's gradient, their weighted mean, the clipping, the update."""
        cuts = [len(rows) * rank // NUM_WORKERS for rank in range(NUM_WORKERS + 1)]
        for rank in range(NUM_WORKERS):
            self.backward(rank, rows[cuts[rank] : cuts[rank + 1]])
        samples = [cuts[rank + 1] - cuts[rank] for rank in range(NUM_WORKERS)]
        for parameters in zip(*(model.parameters() for model in self.models), strict=True):
            total = parameters[0].grad * samples[0]
            for parameter, count in zip(parameters[1:], samples[1:], strict=True):
                total += parameter.grad * count
            for parameter in parameters:
                parameter.grad = total / len(rows)
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()

    def backward(self, rank: int, rows: list[int]) -> None:
        images, labels = self.data[rows]
        torch.set_rng_state(self.states[rank])
        self.models[rank].zero_grad()
        nn.functional.cross_entropy(self.models[rank](images), labels).backward()
        self.states[rank] = torch.get_rng_state()


def test_eight_simulated_workers_equal_the_maths_by_hand_bit_for_bit() -> None:
    by_hand = ByHand(run_alone("--epochs", "1", "--batch-size", "512"), epochs=2, batch_size=16)
    outcome = simulated(EXAMPLE, NUM_WORKERS, "allreduce", *ARGUMENTS, seed=SEED)
    assert outcome.facts.steps == [2 * 12] * NUM_WORKERS
    assert outcome.consensus == 0.0
    for model, replica in zip(by_hand.models, outcome.replicas, strict=True):
        for expected, got in zip(model.parameters(), replica.model.parameters(), strict=True):
            assert torch.equal(expected, got)
    assert len({state.numpy().tobytes() for state in by_hand.states}) == NUM_WORKERS, "every worker draws its own masks"
