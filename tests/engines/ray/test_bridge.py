"""The Ray bridge on a cluster of two nodes."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
from support.processes.ray_nodes import CPUS_PER_NODE, Nodes, parent_of

from weft.core.errors import ConfigError, NodeLost
from weft.engines.hosts.worker_info import WorkerInfo
from weft.engines.ray.actor import Roll
from weft.engines.ray.cluster import RayCluster

ONE = {"CPU": 1.0}


def go_on() -> None:
    """Nobody asks to stop."""


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import weft\n")
    return tmp_path


def test_workers_are_put_on_all_nodes_and_give_their_places_back(
    nodes: Nodes, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in nodes.environment.items():
        monkeypatch.setenv(name, value)
    with RayCluster(nodes.address, {}, shipped) as cluster:
        cluster.settle(go_on)
        assert (cluster.address, cluster.nodes) == ("127.0.0.1", ["node:127.0.0.1"] * 2)
        num_workers = CPUS_PER_NODE + 1
        with pytest.raises(ConfigError, match="room for 4"):
            cluster.place([ONE] * (2 * CPUS_PER_NODE + 1), 0.1, go_on)
        rolls = [msgspec.json.encode(Roll(rank, "train.py", cluster.address)) for rank in range(num_workers)]
        cluster.place([ONE] * num_workers, 10, go_on)
        infos = [msgspec.json.decode(raw, type=WorkerInfo) for raw in cluster.ask_all("present", rolls, go_on)]
        assert [each.rank for each in infos] == list(range(num_workers))
        assert len({parent_of(each.pid) for each in infos}) == 2, "each node has a process that starts its actors"
        os.kill(infos[1].pid, signal.SIGKILL)
        with pytest.raises(NodeLost, match="worker 1 has no process on the Ray cluster: The actor died"):
            cluster.ask_all("present", rolls, go_on)
        cluster.clear()
        cluster.place([ONE] * 2 * CPUS_PER_NODE, 10, go_on)


def test_a_cluster_that_wants_another_token_is_told(
    nodes: Nodes, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**nodes.environment, "RAY_AUTH_TOKEN": "0" * 64}.items():
        monkeypatch.setenv(name, value)
    with (
        RayCluster(nodes.address, {}, shipped) as cluster,
        pytest.raises(ConfigError, match="wants a token that it was not given"),
    ):
        cluster.settle(go_on)
