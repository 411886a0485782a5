"""The cluster file of a check-up."""

import pytest
from support.ui.cluster_checks import RATE, TRIP_S, a_checkup, seen_well

from weft.config.cluster import HostSpec, read_cluster
from weft.config.clusterfile import cluster_toml
from weft.config.toml import read_toml
from weft.core.errors import TransportError
from weft.cost.links import Link
from weft.engines.diagnose.cluster.cluster_file import measured_cluster
from weft.engines.diagnose.cluster.connections import NOT_CALLED, SILENT
from weft.engines.diagnose.cluster.info import HostFinding

SAME_MACHINE = {"machine": "boot", "cores": 2.0}


def test_hosts_with_equally_many_workers_are_of_a_kind_and_the_link_is_the_measured_one() -> None:
    cluster = measured_cluster(a_checkup([2, 2, 1]))
    assert cluster.hosts == (HostSpec(2, 2), HostSpec(1, 1))
    assert cluster.between == Link(1.1 * TRIP_S / 2, 0.95 * RATE)
    assert cluster.cores == 4
    assert read_cluster(read_toml(cluster_toml(cluster), "it"), "it") == cluster


def test_workers_per_host_may_be_said() -> None:
    assert measured_cluster(a_checkup([1, 1]), 8).hosts == (HostSpec(2, 8),)


def test_noise_is_evened_out_but_the_links_of_a_much_slower_host_are_the_ones_that_count() -> None:
    disturbed = {(1, 0): seen_well(0, TRIP_S * 5, 0.0, RATE / 5)}
    assert measured_cluster(a_checkup([1] * 4, seen=disturbed)).between == Link(1.1 * TRIP_S / 2, 0.95 * RATE)
    slow = {(3, other): seen_well(other, TRIP_S * 3, 0.0, RATE / 4) for other in range(3)}
    slow |= {(other, 3): seen_well(3, None, None, RATE / 4) for other in range(3)}
    assert measured_cluster(a_checkup([1] * 4, seen=slow)).between == Link(1.1 * (TRIP_S * 3) / 2, 0.95 * (RATE / 4))


@pytest.mark.parametrize(
    ("sizes", "speed"), [([1], 1.0), ([1, 1], 1.0), ([1] * 4, 0.5), ([2, 2], 0.5), ([4], 1.0), ([4, 4], 0.5)], ids=str
)
def test_hosts_on_one_machine_share_its_cores(sizes: list[int], speed: float) -> None:
    checkup = a_checkup([*sizes, 1], cards=dict.fromkeys(range(len(sizes)), SAME_MACHINE))
    assert {host.speed for host in measured_cluster(checkup).hosts[:-1]} <= {speed, 1.0}
    assert measured_cluster(checkup).hosts[0].speed == speed


def test_without_a_single_link_there_is_no_file() -> None:
    silent = {(1, 0): HostFinding(0, SILENT, "no."), (0, 1): HostFinding(1, NOT_CALLED, "nothing.")}
    with pytest.raises(TransportError) as refused:
        measured_cluster(a_checkup([1, 1], seen=silent))
    assert str(refused.value) == ("no link between two hosts could be measured, so there is no cluster file to write.")
