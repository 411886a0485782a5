"""Learning rates at the run's pace: only while drivers have their say."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.processes.launches import TRAIN
from support.processes.real import real
from support.scripts.training_scripts import simulated, write

from weft.adapters.pacing import paced
from weft.core.pace import LearningRatePace, pace_of


def test_rates_are_multiplied_meanwhile_and_are_the_scripts_own_again_afterwards() -> None:
    groups: list[dict[str, Any]] = [{"lr": 0.1, "momentum": 0.9}, {"momentum": 0.5}, {"lr": torch.tensor(0.3)}]
    with paced(LearningRatePace(4, 4.0), 0, groups):
        assert groups[0] == {"lr": 0.4, "momentum": 0.9}
        assert groups[1] == {"momentum": 0.5}
        assert float(groups[2]["lr"]) == pytest.approx(1.2)
    assert groups[0]["lr"] == 0.1
    assert float(groups[2]["lr"]) == pytest.approx(0.3)


def test_what_somebody_else_sets_meanwhile_stays() -> None:
    groups: list[dict[str, Any]] = [{"lr": 0.1}]
    with paced(LearningRatePace(4, 4.0), 0, groups):
        groups[0]["lr"] = 7.0
    assert groups == [{"lr": 7.0}]


ARRAYS = (
    TRAIN
    + """
for _ in range(4):
    worker.step({"w": np.ones(50)}, samples=1)
worker.report(w=lambda: w.mean())
"""
)
TORCH = """
import torch
import weft

model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
worker = weft.join(model, optimizer)
for _ in range(4):
    worker.count(1)
    optimizer.zero_grad()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    scheduler.step()
worker.report(w=lambda: model.weight.item(), lr=optimizer.param_groups[0]["lr"])
"""
PACE = pace_of(2, True, 2)
FACTORS = (1.0, 1.5, 2.0, 2.0)


@pytest.mark.parametrize("strategy", ["allreduce", "ps", "gossip"])
def test_arrays_learn_at_the_pace_wherever_their_optimizer_runs(tmp_path: Path, strategy: str) -> None:
    script = write(tmp_path, ARRAYS)
    expected = -0.1 * sum(FACTORS)
    assert real(script, 2, strategy, pace=PACE).to_json()["final"]["w"] == pytest.approx(expected)
    assert simulated(script, 2, strategy, pace=PACE).facts.final["w"] == pytest.approx(expected)


@pytest.mark.parametrize("how", [{"strategy": "allreduce"}, {"strategy": "ps"}, {"baseline": "ddp"}], ids=str)
def test_a_scheduler_sees_its_own_rates_and_the_model_learns_at_the_pace(tmp_path: Path, how: dict[str, Any]) -> None:
    final = real(write(tmp_path, TORCH), 2, pace=PACE, **how).to_json()["final"]
    assert final["w"] == pytest.approx(-sum(0.1 * 0.5**step * factor for step, factor in enumerate(FACTORS)))
    assert final["lr"] == pytest.approx(0.1 * 0.5**4)
