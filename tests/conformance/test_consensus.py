"""Replicas that are to be equal are compared, wherever they are; a script that lets them differ is told."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: F401  once for all workers that are forked from here
from support.processes.real import Heard, real
from support.processes.sessions import reductions_of
from support.scripts.training_scripts import simulated

from weft.core.consensus import END
from weft.core.errors import ReplicasDiffer
from weft.engines.real.session import RunSession
from weft.runtime.messages import Concluded, Evaluated, ReplicaTold, Reported, ScriptJoined

SCRIPT = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(DataLoader(TensorDataset(x, y), batch_size=3)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        if sys.argv[2] == "look":
            model(inputs)  # a look at the batch, which BatchNorm's means take for one of training
        optimizer.step()
    if epoch and worker.rank == int(sys.argv[1]) and sys.argv[2] == "report":
        with torch.no_grad():
            model[3].bias[0] += 1e-6
    worker.report(accuracy=torch.no_grad()(lambda: float((model(x).argmax(1) == y).float().mean())))
    if epoch and worker.rank == int(sys.argv[1]) and sys.argv[2] == "end":
        with torch.no_grad():
            model[0].weight += 1
            model[3].bias += 1
"""

WAYS: list[dict[str, Any]] = [
    {},
    {"transport": "tcp"},
    {"transport": "torch"},
    {"baseline": "ddp"},
    {"hosts": (0, 1)},
]


def written(folder: Path) -> Path:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    return script


@pytest.mark.parametrize(("when", "named"), [("report", r"'3\.bias'"), ("end", "' and 1 more")])
def test_simulated_workers_are_compared_as_well(tmp_path: Path, when: str, named: str) -> None:
    assert simulated(written(tmp_path), 3, "allreduce", "-1", "").consensus == 0.0
    with pytest.raises(ReplicasDiffer, match=f"{named} of worker 2 differs from worker 0's after step "):
        simulated(written(tmp_path), 3, "allreduce", "2", when)


@pytest.mark.parametrize("way", WAYS)
def test_equal_replicas_are_found_to_be_so_though_an_evaluation_changes_one_workers_means(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    ran = real(written(tmp_path), 2, "allreduce", -1, "", **way)
    assert [report["consensus"] for report in ran.reports] == [0.0, 0.0]
    assert ran.consensus == 0.0


@pytest.mark.parametrize("way", WAYS)
def test_what_forward_does_to_a_workers_means_between_backward_and_step_is_no_difference(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    assert real(written(tmp_path), 2, "allreduce", -1, "look", **way).consensus == 0.0


def test_nor_is_it_one_of_simulated_workers(tmp_path: Path) -> None:
    assert simulated(written(tmp_path), 3, "allreduce", "-1", "look").consensus == 0.0


@pytest.mark.parametrize("way", [{}, {"transport": "tcp"}, {"baseline": "ddp"}])
def test_what_one_worker_alone_writes_is_found_at_the_report_and_named(tmp_path: Path, way: dict[str, Any]) -> None:
    with pytest.raises(ReplicasDiffer, match=r"'3\.bias' of worker 1 differs from worker 0's after step 8"):
        real(written(tmp_path), 2, "allreduce", 1, "report", **way)


def test_what_one_worker_alone_writes_last_is_found_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(ReplicasDiffer, match="' and 1 more of worker 1 differs from worker 0's after step 8"):
        real(written(tmp_path), 2, "allreduce", 1, "end")


def test_hosts_with_unlike_processors_may_be_apart_by_rounding_which_is_told_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.runtime.seats.engine_seat.processor_kind", lambda: f"kind {os.getpid()}")
    heard = Heard()
    ran = real(written(tmp_path), 2, "allreduce", 1, "report", hosts=(0, 1), heard=heard)
    assert 0 < (ran.consensus or 0) < 1e-3
    assert sum("round differently. '3.bias' is farthest apart after step 8" in line for line in heard.told) == 1
    with pytest.raises(ReplicasDiffer, match="by more than their processors' rounding"):
        real(written(tmp_path), 2, "allreduce", 1, "end", hosts=(0, 1))


def test_hosts_with_the_same_processor_may_not(tmp_path: Path) -> None:
    with pytest.raises(ReplicasDiffer, match=r"'3\.bias' of worker 1 differs from worker 0's after step 8"):
        real(written(tmp_path), 2, "allreduce", 1, "report", hosts=(0, 1))


def test_replicas_that_need_not_be_equal_are_not_compared(tmp_path: Path) -> None:
    assert simulated(written(tmp_path), 2, "local_sgd(period=2)", "1", "report").consensus is not None


Reports = list[tuple[int, dict[str, float], float | None]]


def talk() -> tuple[RunSession, Reports]:
    """With two workers that have joined, and what it will report."""
    reports: Reports = []
    engine = RunSession(2, None, reductions_of(2), lambda rank, message: None)
    engine.on_report = lambda *told: reports.append(told)
    for rank in range(2):
        engine.hear(rank, ScriptJoined(["w (3,) float64"], 24, None, 0))
    return engine, reports


def test_replicas_that_are_told_equal_are_0_apart_at_a_report_and_at_the_end() -> None:
    engine, reports = talk()
    for rank in range(2):
        engine.hear(rank, ReplicaTold(0, 5, {"w": 1}))
        engine.hear(rank, Reported(0, 0, {}, ["accuracy"]))
    engine.hear(0, Evaluated(0, 0, {"accuracy": 0.5}))
    assert reports == [(0, {"accuracy": 0.5}, 0.0)]
    for rank in range(2):
        engine.hear(rank, ReplicaTold(END, 5, {"w": 1}))
        engine.hear(rank, Concluded(None, None))
    assert engine.consensus == 0.0


@pytest.mark.parametrize("told", [None, 0.25])
def test_what_was_not_compared_is_not_known_and_what_a_worker_has_found_out_counts(told: float | None) -> None:
    engine, reports = talk()
    for rank in range(2):
        engine.hear(rank, Reported(0, 0, {}, ["accuracy"]))
    engine.hear(0, Evaluated(0, 0, {}, told))
    engine.hear(0, Concluded(told, None))
    assert reports == [(0, {}, told)]
    assert engine.consensus == told


def test_replicas_that_differ_end_the_run() -> None:
    engine, _ = talk()
    engine.hear(0, ReplicaTold(0, 5, {"w": 1}))
    with pytest.raises(ReplicasDiffer, match="'w' of worker 1 differs from worker 0's after step 5"):
        engine.hear(1, ReplicaTold(0, 5, {"w": 2}))
