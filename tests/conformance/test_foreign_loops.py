"""Loops as people write them learn under every way of running them about what they learn alone."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
from support.processes.launched_workers import launched
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated, write

pytestmark = pytest.mark.slow

LOOPS = Path(__file__).parent / "loops"
NUM_WORKERS = 2
NAMES = ("classifier", "autoencoder", "language_model")

LEARNS_MOST = 0.8
"""The part of what the loop learns alone that it must learn where all workers' gradients count in every step."""
LEARNS_MUCH = 0.6
"""The same where gradients are late, replicas differ, or most of a gradient is left for later."""
BEYOND = 0.25
"""What is learnt beyond that of the loop alone, by luck; more would mean that something else is measured."""

WAYS: dict[str, tuple[str | None, dict[str, str], float]] = {
    "allreduce": ("allreduce", {}, LEARNS_MOST),
    "ssp": ("ssp(staleness=2)", {}, LEARNS_MUCH),
    "gossip": ("gossip", {}, LEARNS_MUCH),
    "topk": ("allreduce", {"compress": "topk(0.25)"}, LEARNS_MUCH),
    "ddp": (None, {"baseline": "ddp"}, LEARNS_MOST),
}


@cache
def alone(name: str) -> tuple[float, float]:
    """The loop's test loss before and after, where nothing has launched it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng():
            first, *_, last = runpy.run_path(str(LOOPS / f"{name}.py"))["main"]([])
    finally:
        torch.set_num_threads(threads)
    return first, last


def half_batches(name: str) -> list[str]:
    """So that all workers together have in a step what the loop alone has."""
    return ["--batch-size", str({"classifier": 32, "autoencoder": 32, "language_model": 16}[name] // NUM_WORKERS)]


def assert_learnt(name: str, loss: float, least: float) -> None:
    first, last = alone(name)
    learnt = (first - loss) / (first - last)
    assert least <= learnt <= 1.0 + BEYOND, f"{first:.4g} became {loss:.4g}; alone it became {last:.4g}"


@pytest.mark.parametrize("name", NAMES)
def test_the_loop_learns_alone(name: str) -> None:
    first, last = alone(name)
    assert last < {"classifier": 0.5, "autoencoder": 0.7, "language_model": 0.7}[name] * first


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_two_workers_learn_what_the_loop_learns_alone(name: str, way: str) -> None:
    strategy, options, least = WAYS[way]
    heard = Heard()
    real(LOOPS / f"{name}.py", NUM_WORKERS, strategy, *half_batches(name), heard=heard, **options)
    assert_learnt(name, heard.reports[-1][1]["loss"], least)


@pytest.mark.parametrize("name", NAMES)
def test_simulated_workers_learn_what_the_loop_learns_alone(name: str) -> None:
    outcome = simulated(LOOPS / f"{name}.py", NUM_WORKERS, "allreduce", *half_batches(name), show=lambda line: None)
    assert_learnt(name, outcome.facts.reports[-1]["loss"], LEARNS_MOST)  # type: ignore[arg-type]


def by_torchrun(name: str, folder: Path) -> str:
    """What the loop writes under torchrun itself."""
    where = ["--standalone", "--nproc-per-node", str(NUM_WORKERS), str(LOOPS / f"{name}.py")]
    command = [sys.executable, "-m", "torch.distributed.run", *where, *half_batches(name)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def as_by_torchrun(name: str, folder: Path) -> str:
    """The same in forks of the test's own process, which has imported torch already."""
    loop = [str(LOOPS / f"{name}.py"), *half_batches(name)]
    script = write(folder, f"import runpy, sys\nsys.argv = {loop}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n")
    with launched(script, ["here"] * NUM_WORKERS) as run:
        assert run.end() == [0] * NUM_WORKERS, run.text
        return run.text


@pytest.mark.parametrize(
    ("name", "way"), [("classifier", as_by_torchrun), ("autoencoder", as_by_torchrun), ("language_model", by_torchrun)]
)
def test_workers_that_torchrun_starts_learn_what_the_loop_learns_alone(
    name: str, way: Callable[[str, Path], str], tmp_path: Path
) -> None:
    (told,) = re.findall(r"^epoch .* loss ([\d.]+)", way(name, tmp_path), re.MULTILINE)
    assert_learnt(name, float(told), LEARNS_MOST)
