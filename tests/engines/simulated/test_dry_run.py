"""Runs without tensors, with kills and without."""

from pathlib import Path

import pytest
from support.scripts.training_scripts import ARRAYS, write

from weft.config.chaos import KILL, ChaosPlan
from weft.config.cluster import Cluster, HostSpec
from weft.core.errors import ConfigError
from weft.cost.links import Link
from weft.cost.recovery import RecoveryTimes
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.outcome import Outcome
from weft.engines.simulated.runner import simulate_dry

EQUAL_SHARES = """
for epoch in worker.epochs(2):
    for rows in worker.share(16, batch_size=2):
        worker.step({"w": w - rows.mean()}, loss=rows.mean())
"""
ONE_HOST = Cluster(
    "here",
    (HostSpec(1, 4),),
    Link(1e-5, 1e9),
    seconds_per_sample=0.01,
    variation=0.02,
    recovery=RecoveryTimes(notice_s=0.02, start_s=0.2, rest_s=0.1),
)


def dry(folder: Path, strategy: str, chaos: ChaosPlan | None, num_steps: int = 200) -> Outcome:
    script = write(folder, ARRAYS, EQUAL_SHARES)
    return simulate_dry(
        SimulatedJob(
            script=script,
            arguments=(),
            cluster=ONE_HOST,
            num_workers=4,
            strategy=strategy,
            steps_max=num_steps,
            chaos=chaos,
        )
    )


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "async_gossip", "local_sgd", "ps"])
def test_killed_workers_are_replaced_and_cost_goodput(strategy: str, tmp_path: Path) -> None:
    usual, struck = (dry(tmp_path, strategy, chaos) for chaos in (None, ChaosPlan(KILL, 1.0, 7)))
    assert (usual.losses, usual.samples_per_s_undisturbed) == ([], None)
    assert struck.samples_per_s_undisturbed == usual.facts.samples_per_s
    assert len(struck.losses) >= 2
    assert all(loss.replaced_s and loss.replaced_s - loss.lost_s > 0.32 for loss in struck.losses[:-1])
    assert struck.facts.samples < usual.facts.samples
    goodput = struck.to_json()["goodput"]
    away_s = sum(loss.replaced_s - loss.lost_s for loss in struck.losses if loss.replaced_s)
    still_s = 0.1 * sum(loss.replaced_s is not None for loss in struck.losses)
    # a quarter of the work is not done while one is away, and nothing while all stand still
    lost = (0.25 * (away_s - still_s) + still_s) / struck.facts.virtual_s
    assert goodput == pytest.approx(1 - lost, abs=0.04)


def test_the_same_seed_kills_the_same_workers_and_repeats_the_run(tmp_path: Path) -> None:
    first, again, other = (dry(tmp_path, "ssp", ChaosPlan(KILL, 1.0, seed)) for seed in (7, 7, 8))
    assert first.losses == again.losses != other.losses
    assert first.trace == again.trace != other.trace


def test_a_strategy_that_deals_portions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--chaos kills workers and replaces them, but this strategy replaces nobody"):
        dry(tmp_path, "sandblaster", ChaosPlan(KILL, 1.0, 7))
