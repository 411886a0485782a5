"""Where runs take place, as the command line says it."""

from pathlib import Path

import pytest
from support.processes.commands import assert_refused

from weft.cli.options.run_on import ground, read_ground
from weft.config.options import RayOptions
from weft.engines.ray.launch import RayPlan
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer

SCRIPT = """
import numpy as np, weft
w = np.zeros(2)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for _ in range(3):
    worker.step({"w": w}, samples=1)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.processes
def test_this_machine_is_where_runs_are_unless_told_otherwise(script: Path) -> None:
    jobs = [RealJob(script=script, num_workers=1)]
    assert read_ground(None, RayOptions(address="10.0.0.1:6379"), (), jobs) is None
    assert read_ground("here", RayOptions(), (), jobs) is None
    with ground(None, jobs, lambda text: None) as perform:
        assert perform(jobs[0], Observer()).workers[0].step == 3


def test_a_ray_cluster_is_asked_for_what_each_worker_needs(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    plan = read_ground("ray", RayOptions(resources="cpu=2,gpu=1"), (), [RealJob(script=script)])
    assert plan == RayPlan(None, {"CPU": 2.0, "GPU": 1.0})


def test_what_does_not_go_together_is_refused(script: Path) -> None:
    where = "run", script, "-n", 2
    assert_refused(*where, "--on", "rey", because="--on 'rey' is not known.\n  Did you mean 'ray'?")
    lone = "--set ray.address is for a Ray cluster.\n  Add --on ray, or leave it out."
    assert_refused(*where, "--set", "ray.address=10.0.0.1:6379", because=lone)
    hosts = "--hosts is for workers of this machine, not for --on ray.\n  Leave out one of them."
    assert_refused(*where, "--on", "ray", "--hosts", 2, because=hosts)
    baseline = "--baseline is for workers of this machine, not for --on ray.\n  Leave out one of them."
    assert_refused(*where, "--on", "ray", "--baseline", "ddp", because=baseline)
    nothing = "--set ray.resources got 'gpus', but wants NAME=NUMBER.\n  Write e.g. --set ray.resources=cpu=1,gpu=0."
    assert_refused(*where, "--on", "ray", "--set", "ray.resources=gpus", because=nothing)
