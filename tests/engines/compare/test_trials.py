"""Jobs of contenders: the same but for what makes them contenders."""

from dataclasses import replace
from pathlib import Path

import pytest

from weft.config.cluster import load_cluster
from weft.config.ways import Way
from weft.engines.compare.trials import RealTrials, SimulatedTrials, refusal
from weft.engines.real.job import RealJob
from weft.engines.simulated.job import SimulatedJob


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import weft")
    return path


def test_contenders_differ_in_their_way_and_seed_alone(script: Path) -> None:
    common = RealJob(script=script, arguments=("--lr", "1"), num_workers=4, slow={0: 4.0}, steps_max=9)
    job = RealTrials(common).job(Way("allreduce", "fp16", "proportional"), 3)
    assert job == replace(common, strategy="allreduce", compress="fp16", share="proportional", seed=3)
    assert RealTrials(common).job(Way(baseline="ddp"), 3) == replace(common, baseline="ddp", seed=3)
    simulated = SimulatedJob(script=script, arguments=(), cluster=load_cluster("edge"), num_workers=4)
    assert SimulatedTrials(simulated).job(Way("ssp"), 2) == replace(simulated, strategy="ssp", seed=2)


def test_ways_that_cannot_run_say_why_before_anything_starts(script: Path) -> None:
    trials = RealTrials(RealJob(script=script, arguments=(), num_workers=4))
    assert refusal(trials, Way("allreduce")) is None
    assert "wait for each other" in str(refusal(trials, Way("allreduce", None, "stealing")))
    assert "cannot be used with" in str(refusal(trials, Way("gossip", "topk(0.01)")))
    assert "did you mean" in str(refusal(trials, Way(baseline="dpp"))).lower()
