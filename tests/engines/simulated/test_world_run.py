"""The world of a job on its cluster."""

from pathlib import Path

from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, write

from weft.config.cluster import Cluster, HostSpec
from weft.config.registry import strategy
from weft.core.names import Bucket
from weft.cost.links import Link
from weft.engines.simulated.job import SimulatedJob
from weft.engines.simulated.world_run import world_of


def test_servers_are_on_the_hosts_of_the_first_workers(tmp_path: Path) -> None:
    cluster = Cluster("two", (HostSpec(2, 2),), Link(1e-5, 1e9))
    script = write(tmp_path, ARRAYS, ARRAYS_TRAIN)
    job = SimulatedJob(script=script, arguments=(), cluster=cluster, num_workers=4, strategy="ssp(servers=3)")
    world, placement = world_of(job, strategy("ssp(servers=3)"), [Bucket(3), Bucket(2), Bucket(1)])
    assert placement.hosts == (0, 0, 1, 1)
    assert world.hosts == (0, 0, 1, 1, 0, 0, 1)
    assert world.buckets == (Bucket(3), Bucket(2), Bucket(1))
