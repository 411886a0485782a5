"""Runs on a Ray cluster of two nodes."""

import json
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from support.processes.launches import FOREVER, TRAIN, Launched, launched, wait_until
from support.processes.ray_nodes import Nodes, parent_of

from weft.config.network import read_network
from weft.core.errors import ConfigError
from weft.engines.ray.launch import RayPlan, check_for_ray
from weft.engines.real.job import RealJob

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits_cnn.py"
PATIENCE_S = 240.0
"""Ray starts many processes for each of ours."""


@contextmanager
def on_ray(nodes: Nodes, script: Path, *arguments: object, cwd: Path | None = None) -> Iterator[Launched]:
    """`weft run` on these nodes."""
    on = "--on", "ray", "--set", f"ray.address={nodes.address}"
    with launched(script, *on, *arguments, cwd=cwd, **nodes.environment) as run:
        run.patience_s = PATIENCE_S
        yield run


def written(folder: Path, *parts: str) -> Path:
    script = folder / "train.py"
    script.write_text("".join(parts))
    return script


def seconds_until_gone(nodes: Nodes) -> float:
    """How long it takes until no worker and no host agent is left on the nodes."""
    began = time.monotonic()
    wait_until(
        lambda: not nodes.workers() + nodes.agents(), "the others' end", lambda: select.select([], [], [], 0.005)
    )
    return time.monotonic() - began


def test_an_example_trains_on_two_nodes_and_its_model_is_brought_back(nodes: Nodes, tmp_path: Path) -> None:
    arguments = "-n", 3, "--json", "figures.json", "--", "--epochs", 3, "--save", "model.safetensors"
    with on_ray(nodes, EXAMPLE, *arguments, cwd=tmp_path) as run:
        assert run.end() == 0, run.text
    (row,) = json.loads((tmp_path / "figures.json").read_text())
    assert row["workers"] == 3
    assert row["final"]["accuracy"] > 0.95
    assert [report["epoch"] for report in row["reports"]] == [0, 1, 2]
    assert "'model.safetensors' has come from worker" in run.text
    assert "epoch   3  accuracy" in run.text
    assert any(array.any() for array in load_file(tmp_path / "model.safetensors").values())
    assert nodes.workers() + nodes.agents() == []


def test_a_worker_that_is_killed_is_named_and_ends_the_others_within_two_seconds(nodes: Nodes, tmp_path: Path) -> None:
    with on_ray(nodes, written(tmp_path, TRAIN, FOREVER), "-n", 2) as run:
        run.until("trains", 2)
        victim, _ = nodes.workers()
        os.kill(victim, signal.SIGKILL)
        assert seconds_until_gone(nodes) < 2
        assert run.end() == 1
    assert f"pid {victim}) stopped " in run.text
    assert "killed by signal 9 (SIGKILL)" in run.text
    assert "memory may have run out" in run.text


def test_a_worker_ends_with_its_actor_and_the_others_with_both(nodes: Nodes, tmp_path: Path) -> None:
    with on_ray(nodes, written(tmp_path, TRAIN, FOREVER), "-n", 2) as run:
        run.until("trains", 2)
        victim, _ = nodes.workers()
        os.kill(parent_of(victim), signal.SIGKILL)
        assert seconds_until_gone(nodes) < 2
        assert run.end() == 1
    assert f"pid {victim}) stopped " in run.text
    assert "killed by signal 9 (SIGKILL)" in run.text
    assert "its Ray actor is gone" in run.text


def test_strategies_run_after_each_other_in_the_folder_that_was_shipped(nodes: Nodes, tmp_path: Path) -> None:
    script = written(tmp_path, TRAIN, "say(f\"{worker.rank} reads {open('notes').read()}\")", FOREVER)
    (tmp_path / "notes").write_text("what was shipped")
    ways = "--strategy", "allreduce", "--strategy", "gossip", "--steps", 20
    with on_ray(nodes, script, "-n", 2, *ways, "--json", tmp_path / "figures.json") as run:
        assert run.end() == 0, run.text
    assert [row["strategy"] for row in json.loads((tmp_path / "figures.json").read_text())] == ["allreduce", "gossip"]
    assert run.text.count("worker 1 | 1 reads what was shipped") == 2


def test_workers_that_find_no_place_are_told_of_what_is_lacking(nodes: Nodes, tmp_path: Path) -> None:
    script = written(tmp_path, TRAIN, FOREVER)
    with on_ray(nodes, script, "-n", 9, "--set", "ray.patience_s=200ms") as run:
        assert run.end() == 2
    assert "9 workers ask for cpu=1 each, but the Ray cluster has cpu=4 on 2 nodes: room for 4." in run.text


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"network": read_network("10mbit,1ms"), "transport": "tcp"}, "--net"),
        ({"hosts": (0, 1)}, "--hosts"),
        ({"baseline": "ddp"}, "--baseline"),
    ],
)
def test_what_only_this_machine_can_do_is_refused(options: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is for workers of this machine, not for --on ray"):
        check_for_ray(RealJob(script=EXAMPLE, **options))  # type: ignore[arg-type]


def test_a_plan_asks_for_as_much_as_all_workers_need() -> None:
    assert RayPlan(None, {"CPU": 2.0, "tpu": 1.0}).resources(3) == {"CPU": 6.0, "tpu": 3.0}
