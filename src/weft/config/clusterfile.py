"""Writes a cluster as the TOML that load_cluster reads."""

import json

from weft.config.cluster import Cluster, HostSpec
from weft.cost.links import Link


def cluster_toml(cluster: Cluster) -> str:
    """The text of a cluster file."""
    lines = [f"name = {json.dumps(cluster.name, ensure_ascii=False)}", "", "[compute]"]
    lines += [f"seconds_per_sample = {cluster.seconds_per_sample!r}", f"variation = {cluster.variation!r}"]
    if cluster.seconds_per_step:
        lines.append(f"seconds_per_step = {cluster.seconds_per_step!r}")
    if cluster.cores is not None:
        lines.append(f"cores = {cluster.cores} # of each host, shared by its workers")
    if cluster.step_s:
        lines.append(f"step_s = {[list(row) for row in cluster.step_s]!r}")
    lines.append("")
    for host in cluster.hosts:
        lines += _host(host)
    lines += _link("between", cluster.between) + _link("within", cluster.within)
    for straggler in cluster.stragglers:
        lines += ["[[stragglers]]", f"worker = {straggler.worker}", f"factor = {straggler.factor!r}", ""]
    if cluster.codecs:
        lines.append("[codecs] # bytes of the array per second")
        lines += [f"{name} = {{ encode = {speed[0]:.0f}, decode = {speed[1]:.0f} }}" for name, speed in cluster.codecs]
    return "\n".join(lines).rstrip() + "\n"


def _host(host: HostSpec) -> list[str]:
    lines = ["[[hosts]]", f"count = {host.count}", f"workers = {host.workers}", f"speed = {host.speed!r}"]
    if host.seconds_per_sample is not None:
        lines.append(f"seconds_per_sample = {host.seconds_per_sample!r}")
    return [*lines, ""]


def _link(name: str, link: Link) -> list[str]:
    latency, bandwidth = link
    return [f"[links.{name}]", f"latency = {latency!r} # seconds", f"bandwidth = {bandwidth!r} # bytes per second", ""]
