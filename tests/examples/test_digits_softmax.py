"""The numpy example: alone, and simulated with every strategy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes.commands import weft_command
from support.scripts.examples import run_example
from support.scripts.training_scripts import simulated

from weft.config.cluster import load_cluster
from weft.config.registry import COLLECTIVES, STRATEGIES
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.runner import simulate_dry

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_softmax.py"


def test_one_simulated_worker_equals_the_script_alone_bit_for_bit(capsys: pytest.CaptureFixture[str]) -> None:
    alone = run_example(EXAMPLE.name)["w"]
    outcome = simulated(EXAMPLE, 1)
    assert outcome.arrays is not None
    assert outcome.arrays[0].tobytes() == alone.tobytes()
    accuracies: list[Any] = [report["accuracy"] for report in outcome.facts.reports]
    assert capsys.readouterr().out.splitlines() == [
        f"epoch {epoch:3d}  accuracy {accuracy:.4f}" for epoch, accuracy in enumerate(accuracies, 1)
    ]
    assert len(accuracies) == 10
    assert accuracies[-1] > 0.9


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5, 7])
def test_any_number_of_workers_trains_with_every_strategy(tmp_path: Path, num_workers: int) -> None:
    path = tmp_path / "all.json"
    ended = weft_command("simulate", EXAMPLE, "-n", num_workers, "--steps", 3, "--strategy", "all", "--json", path)
    assert ended.code == 0
    alone = num_workers == 1
    names = [name for name in STRATEGIES if name != ("population" if alone else "hogwild")]
    said = [line for line in ended.err.splitlines() if " s  " not in line]  # on a slow machine, how far it is, too
    told = [line for line in said if "period" not in line]  # three steps are too few for most of them
    missing, running = told[: len(STRATEGIES) - len(names)], told[len(STRATEGIES) - len(names) :]
    assert [line.split(" is left out: ")[0] for line in missing] == [name for name in STRATEGIES if name not in names]
    assert running == [f"{name} ({i} of {len(names)})" for i, name in enumerate(names, 1)]
    rows = json.loads(path.read_text())
    assert [row["strategy"] for row in rows] == names
    for row in rows:
        assert (row["workers"], row["steps"], row["samples"]) == (num_workers, 3, num_workers * 3 * 8)
        assert np.isfinite(row["final"]["loss"])
        assert 0.05 < row["final"]["accuracy"] < 1.0
        assert row["virtual_s"] > 0


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("num_workers", [2, 5])
def test_any_collective_gives_what_the_native_reduction_gives(collective: str, num_workers: int) -> None:
    native = simulated(EXAMPLE, num_workers, steps_max=10)
    lowered = simulated(EXAMPLE, num_workers, collective=collective, steps_max=10)
    assert native.arrays is not None
    assert lowered.arrays is not None
    np.testing.assert_allclose(lowered.arrays[0], native.arrays[0], rtol=1e-12, atol=1e-15)
    assert lowered.trace != native.trace


@pytest.mark.parametrize(
    ("strategy", "steps_max"),
    [("allreduce", None), ("gossip", None), ("allreduce", 5), ("gossip", 5), ("ssp", 5), ("local_sgd(period=2)", 5)],
)
def test_a_dry_run_takes_the_same_steps_bytes_and_virtual_time(strategy: str, steps_max: int | None) -> None:
    job = SimulatedJob(
        script=EXAMPLE,
        arguments=(),
        cluster=load_cluster("edge"),
        num_workers=7,
        strategy=strategy,
        seed=3,
        steps_max=steps_max,
    )
    dry = simulate_dry(job)
    real = simulated(EXAMPLE, 7, strategy, cluster="edge", seed=3, steps_max=steps_max)
    for name in ("steps", "samples", "virtual_s", "bytes_sent", "compute_s", "finished_s", "staleness_mean"):
        assert getattr(dry.facts, name) == getattr(real.facts, name), name
    assert (dry.arrays, dry.consensus) == (None, None)
    if steps_max is None:
        assert dry.trace == real.trace, "reports take no virtual time, so every event is at its nanosecond"


def test_the_same_seed_repeats_the_run_and_another_is_another() -> None:
    runs = [simulated(EXAMPLE, 4, "gossip", cluster="edge", seed=seed, steps_max=20) for seed in (5, 5, 6)]
    first, again, other = [(run.trace, run.arrays[0].tobytes(), run.to_json()) for run in runs if run.arrays]
    assert first == again
    assert first[0] != other[0], "compute times on the edge are random"
    assert first[1] != other[1], "and so is the order of the data"


def test_gossip_on_the_edge_learns_what_allreduce_learns_in_less_virtual_time() -> None:
    gossip = simulated(EXAMPLE, 9, "gossip(topology=torus)", cluster="edge", seed=7)
    allreduce = simulated(EXAMPLE, 9, "allreduce", cluster="edge", seed=7)
    assert gossip.facts.virtual_s < allreduce.facts.virtual_s
    assert gossip.facts.final["accuracy"] > allreduce.facts.final["accuracy"] - 0.02  # type: ignore[operator]
    assert gossip.facts.samples == allreduce.facts.samples
