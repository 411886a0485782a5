"""`weft doctor --cluster` on a Ray cluster: an actor on every node; the actors measure the links between nodes."""

import os
import tempfile
from pathlib import Path

import msgspec

from weft.core.errors import ConfigError
from weft.engines.diagnose.cluster.run import Checkup
from weft.engines.hosts.worker_info import WorkerInfo
from weft.engines.ray.actor import Exam, Roll
from weft.engines.ray.cluster import RayCluster, address_of, check_ray
from weft.engines.real.secret import new_secret

PATIENCE_S = 10.0
PART_OF_A_NODE = 0.001
"""Amount of each node's 'node:ADDRESS' resource that an actor takes, so that it takes no CPU from other jobs."""


def examine_cluster(address: str | None, script: Path | None) -> Checkup:
    """Run the check-up on all nodes of the cluster at `address`."""
    check_ray()
    found = address_of(address, os.environ)
    if found is None:
        raise ConfigError("there is no Ray cluster to examine.\n  Name one: --address HOST:6379, or RAY_ADDRESS.")
    with tempfile.TemporaryDirectory(prefix="weft-") as empty:
        folder = Path(empty) if script is None else script.resolve().parent
        with RayCluster(found, {}, folder) as cluster:
            cluster.settle(go_on)
            bundles = [{node: PART_OF_A_NODE} for node in cluster.nodes]
            cluster.place(bundles, PATIENCE_S, go_on, spreads=True)
            return _examined(cluster, len(bundles), script)


def _examined(cluster: RayCluster, num_actors: int, script: Path | None) -> Checkup:
    name = None if script is None else script.name
    rolls = [msgspec.json.encode(Roll(rank, name, cluster.address)) for rank in range(num_actors)]
    infos = [msgspec.json.decode(raw, type=WorkerInfo) for raw in cluster.ask_all("present", rolls, go_on)]
    host, secret = infos[0].address, new_secret()
    port = int(cluster.ask_all("port", [host.encode()], go_on)[0])
    exams = [Exam(rank, num_actors, cluster.address, host, port, secret, name) for rank in range(num_actors)]
    answers = cluster.ask_all("examine", [msgspec.json.encode(exam) for exam in exams], go_on)
    return msgspec.json.decode(answers[0], type=Checkup)


def go_on() -> None:
    """A check that does nothing: Ctrl-C ends the check-up by KeyboardInterrupt."""
