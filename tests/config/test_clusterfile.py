"""Writing a cluster as the TOML that load_cluster reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from weft.config.cluster import PACKAGED, Cluster, HostSpec, Straggler, load_cluster
from weft.config.clusterfile import cluster_toml
from weft.cost.coding import Throughput
from weft.cost.links import Link

FULL = Cluster(
    name="lab",
    hosts=(HostSpec(2, 3, 0.1 + 0.2), HostSpec(1, 1, 1.0, 7e-3)),
    between=Link(2e-3, 1e6),
    within=Link(1e-6, 1 / 3),
    seconds_per_sample=1.23456789e-5,
    variation=0.1,
    seconds_per_step=2.5e-4,
    cores=3,
    stragglers=(Straggler(2, 3.0), Straggler(0, 1.5)),
    step_s=((0.1, 0.2), (0.3,)),
    codecs=(("topk", Throughput(1e9, 2e10)), ("onebit", Throughput(3e9, 4e9))),
)


@pytest.mark.parametrize(
    "cluster",
    [
        FULL,
        replace(FULL, name='a "b" \\ größer 🙂'),
        replace(FULL, step_s=()),
        *(load_cluster(name) for name in PACKAGED),
    ],
    ids=lambda cluster: cluster.name,
)
def test_a_cluster_that_is_written_and_read_is_the_same(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "again.toml"
    path.write_text(cluster_toml(cluster), encoding="utf-8")
    assert load_cluster(str(path)) == cluster


def test_the_file_says_which_units_its_numbers_have() -> None:
    lines = cluster_toml(FULL).splitlines()
    assert "latency = 0.002 # seconds" in lines
    assert "bandwidth = 1000000.0 # bytes per second" in lines
