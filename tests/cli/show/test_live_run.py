"""Runs on the screen: what they say of themselves is part of their output only when it is asked for."""

from pathlib import Path

import pytest
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, TORCH, TORCH_JOIN, write

from weft.cli.show import streams
from weft.cli.show.live_run import SimulatedProgress, simulate_shown, watched
from weft.config.cluster import load_cluster
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate
from weft.engines.simulated.world_run import SimulationObserver
from weft.sim.facts import Facts


@pytest.mark.parametrize("dry", [False, True])
def test_a_simulated_run_explains_itself_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    job = SimulatedJob(
        script=write(tmp_path, ARRAYS, ARRAYS_TRAIN),
        arguments=(),
        cluster=load_cluster("edge"),
        num_workers=2,
        strategy="allreduce",
    )
    quiet = simulate_shown(job, "allreduce", dry)
    assert "cluster 'edge'" not in capsys.readouterr().out
    told = simulate_shown(job, "allreduce", dry, explain=True)
    assert "cluster 'edge'" in capsys.readouterr().out
    assert told.trace == quiet.trace
    assert told.replicas == []


def test_whoever_watches_a_run_has_figures_that_must_not_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_run_started", False)
    with watched(2, "ssp"):
        assert streams._run_started


TWO_OPTIMIZERS = """
other = nn.Linear(3, 1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
weft.join(other, second)
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        second.zero_grad()
        other(model(inputs).detach()).mean().backward()
        second.step()
"""
ACCUMULATES = """
for epoch in worker.epochs(2):
    for number, (inputs, labels) in enumerate(worker.share(loader)):
        with worker.accumulate():
            nn.functional.cross_entropy(model(inputs), labels).backward()
        if number % 3 == 2:
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
"""


def last_said(script: Path) -> tuple[str, float, float | None]:
    """What is said of the last step of a script on two workers, however many that are."""
    said: list[tuple[str, float, float | None]] = []
    shown = SimulatedProgress(lambda text, done, total: said.append((text, done, total)), every=1)

    def on_step(facts: Facts, now_s: float) -> None:
        shown.step(facts, now_s)

    job = SimulatedJob(script=script, arguments=(), cluster=load_cluster("rack"), num_workers=2, strategy="allreduce")
    simulate(job, SimulationObserver(on_step=on_step, on_plan=shown.plan))
    return said[-1]


def test_the_progress_of_a_script_with_one_step_for_each_batch_is_told_in_steps(tmp_path: Path) -> None:
    text, done, total = last_said(write(tmp_path, ARRAYS, ARRAYS_TRAIN))
    assert text.startswith("12 of 12 steps, ")
    assert done == total == 26


def test_the_progress_of_a_script_with_several_optimizers_ends_at_its_end(tmp_path: Path) -> None:
    text, done, total = last_said(write(tmp_path, TORCH, TORCH_JOIN, TWO_OPTIMIZERS))
    assert text.startswith("40 steps, 100 %, ")
    assert done == total == 52


def test_the_progress_of_a_script_that_adds_up_gradients_ends_at_its_end(tmp_path: Path) -> None:
    text, done, total = last_said(write(tmp_path, TORCH, TORCH_JOIN, ACCUMULATES))
    assert " %, " in text
    assert total is not None
    assert done > 0.8 * total
