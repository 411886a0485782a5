"""Runs that end before their workers first exchange anything say so, and result in the mean."""

from pathlib import Path

import pytest
from support.processes.real import Heard, real
from support.scripts.training_scripts import write

from weft.config.cluster import load_cluster
from weft.config.registry import lowered
from weft.config.registry import strategy as strategy_of
from weft.engines.real.short_runs import ShortRun
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate, simulate_dry
from weft.engines.simulated.world_run import SimulationObserver

BEGIN = """
import numpy as np
import weft

w = np.zeros(1)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=1.0))
"""
PLANNED = """
for epoch in worker.epochs(1):
    for rows in worker.share(10, batch_size=1):
        worker.step({"w": np.full(1, -1.0 - worker.rank)})
    worker.report(w=lambda: w[0])
"""
OPEN = """
for step in range(5):
    worker.step({"w": np.full(1, -1.0 - worker.rank)}, samples=1)
worker.report(w=lambda: w[0])
"""
WILL = (
    "5 steps, period 100: workers will never meet. Each trains alone, and the result is the mean of their models.\n"
    "  Use a period of 5 steps or fewer, or train longer."
)
NEVER = (
    "5 steps, period 100: workers never met. Each trained alone, and the result is the mean of their models.\n"
    "  Use a period of 5 steps or fewer, or train longer."
)
MEAN = 7.5
"""Of what workers have that make 5 steps of 1 and of 2."""
SERVED = ("easgd(period=100, mode=async)", "downpour(push=100, fetch=100)")
PERIODIC = (
    "local_sgd(period=100)",
    "diloco(period=100)",
    "bmuf(period=100)",
    "slowmo(period=100)",
    "easgd(period=100)",
    *SERVED,
)


def run_simulated(script: Path, strategy: str, num_workers: int = 2) -> tuple[list[str], float]:
    told: list[str] = []
    job = SimulatedJob(
        script=script, arguments=(), cluster=load_cluster("rack"), num_workers=num_workers, strategy=strategy
    )
    outcome = simulate(job, SimulationObserver(on_tell=told.append))
    return told, float(outcome.arrays[0][0])  # type: ignore[index]


def run_real(script: Path, strategy: str, num_workers: int = 2) -> tuple[list[str], float]:
    heard = Heard()
    real(script, num_workers, strategy, heard=heard)
    return heard.told, heard.reports[-1][1]["w"]


@pytest.mark.parametrize("strategy", PERIODIC)
def test_simulated_workers_that_will_never_meet_say_so_and_result_in_their_mean(strategy: str, tmp_path: Path) -> None:
    assert run_simulated(write(tmp_path, BEGIN, PLANNED), strategy) == ([WILL], MEAN)


@pytest.mark.parametrize("strategy", ["diloco(period=100)", "easgd(period=100)", *SERVED])
def test_real_workers_that_will_never_meet_say_so_and_result_in_their_mean(strategy: str, tmp_path: Path) -> None:
    assert run_real(write(tmp_path, BEGIN, PLANNED), strategy) == ([WILL], MEAN)


def test_a_loop_of_unknown_length_says_so_at_its_end(tmp_path: Path) -> None:
    script = write(tmp_path, BEGIN, OPEN)
    assert run_simulated(script, "diloco(period=100)") == ([NEVER], MEAN)
    assert run_real(script, "diloco(period=100)") == ([NEVER], MEAN)


@pytest.mark.parametrize(
    ("strategy", "result"),
    [
        ("local_sgd(period=3)", 7.5),
        # 3 steps are 4.5 on average, of which Nesterov makes 0.7 (1 + 0.8) 4.5; 2 more steps are 3
        ("diloco(period=3)", 8.67),
    ],
)
def test_steps_after_the_last_exchange_count_by_their_mean(strategy: str, result: float, tmp_path: Path) -> None:
    script = write(tmp_path, BEGIN, PLANNED)
    assert run_simulated(script, strategy) == ([], pytest.approx(result))
    assert run_real(script, strategy) == ([], pytest.approx(result))


def test_a_run_without_tensors_says_so_too(tmp_path: Path) -> None:
    told: list[str] = []
    job = SimulatedJob(
        script=write(tmp_path, BEGIN, PLANNED),
        arguments=(),
        cluster=load_cluster("rack"),
        num_workers=2,
        strategy="diloco",
    )
    simulate_dry(job, SimulationObserver(on_tell=told.append))
    assert told == [WILL]


def test_one_worker_meets_nobody_and_says_nothing(tmp_path: Path) -> None:
    told, result = run_simulated(write(tmp_path, BEGIN, OPEN), "local_sgd(period=100)", num_workers=1)
    assert (told, result) == ([], 5.0)


def test_it_is_told_once_and_only_where_nobody_meets() -> None:
    told: list[str] = []
    short_run = ShortRun(lowered(strategy_of("local_sgd(period=6)"), "ring"), 2, told.append)
    short_run.expect(6)
    short_run.end(6)
    assert told == []
    short_run.expect(5)
    short_run.end(5)
    assert [text.partition(".")[0] for text in told] == ["5 steps, period 6: workers will never meet"]
