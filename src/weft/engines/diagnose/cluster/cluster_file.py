"""Makes a cluster file from the measurements of a check-up."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from statistics import median

from weft.config.cluster import Cluster, HostSpec
from weft.core.errors import TransportError
from weft.cost.links import Link
from weft.engines.diagnose.cluster.findings import ALIKE, latencies_s, rates
from weft.engines.diagnose.cluster.run import Checkup


def measured_cluster(checkup: Checkup, workers_per_host: int | None = None) -> Cluster:
    """The hosts and the link between them; the time of a sample is left to `weft calibrate`.

    The file has one kind of link: the median or, if a host's links are much slower, that host's, for which all would
    wait. Its bandwidth is that of both directions at once, as in training; its latency is half the median round trip.
    Hosts that are namespaces of one machine share its cores, and are slower for that.
    """
    bandwidths, delays = rates(checkup, both_ways=True), latencies_s(checkup, usual=True)
    if not bandwidths or not delays:
        raise TransportError("no link between two hosts could be measured, so there is no cluster file to write.")
    usual, slowest = median(bandwidths.values()), min(_of_hosts(bandwidths))
    usual_s, longest_s = median(delays.values()), max(_of_hosts(delays))
    bandwidth = usual if slowest >= ALIKE * usual else slowest
    latency_s = usual_s if longest_s * ALIKE <= usual_s else longest_s
    return Cluster(
        name="measured",
        hosts=_hosts(checkup, workers_per_host),
        between=Link(latency_s, bandwidth),
        cores=max(1, int(min(host[0].cores for host in checkup.hosts))),
    )


def _of_hosts(figures: Mapping[tuple[int, int], float]) -> list[float]:
    """The median figure of each host's links: a single disturbed measurement says nothing about its host."""
    hosts = {host for pair in figures for host in pair}
    return [median(figure for pair, figure in figures.items() if host in pair) for host in hosts]


def _hosts(checkup: Checkup, workers_per_host: int | None) -> tuple[HostSpec, ...]:
    sizes = [workers_per_host or len(host) for host in checkup.hosts]
    crowds = Counter[str]()
    for host, size in zip(checkup.hosts, sizes, strict=True):
        crowds[host[0].machine] += size
    kinds = [
        (size, _speed(host[0].cores, size, crowds[host[0].machine]))
        for host, size in zip(checkup.hosts, sizes, strict=True)
    ]
    return tuple(HostSpec(len(list(same)), size, speed) for (size, speed), same in groupby(kinds))


def _speed(cores: float, size: int, crowd: int) -> float:
    """Relative speed of `size` workers that share a machine's cores with all `crowd` workers on it; 1 if alone."""
    return min(size, cores * size / crowd) / min(size, cores)
