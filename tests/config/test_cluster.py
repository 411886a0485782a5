"""Cluster files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weft.config.cluster import PACKAGED, Cluster, ClusterPlacement, HostSpec, Straggler, load_cluster, read_cluster
from weft.core.errors import ConfigError
from weft.cost.choice import Ground
from weft.cost.links import Link
from weft.cost.recovery import RecoveryTimes

BETWEEN = {"between": {"latency": "1ms", "bandwidth": "1Gbit/s"}}
SMALLEST = {"hosts": [{}], "links": BETWEEN}


def refusal(table: dict[str, Any]) -> str:
    """What read_cluster says to a file with these tables besides the smallest ones."""
    with pytest.raises(ConfigError) as refused:
        read_cluster({**SMALLEST, **table}, "lab.toml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "link"),
    [("rack", Link(50e-6, 1.25e9)), ("cloud", Link(0.5e-3, 125e6)), ("edge", Link(30e-3, 2.5e6))],
)
def test_the_packaged_clusters_have_the_links_of_their_description(name: str, link: Link) -> None:
    cluster = load_cluster(name)
    assert cluster.name == name
    assert cluster.between == pytest.approx(link, rel=1e-12)
    assert cluster.num_workers >= 4


def test_those_who_choose_by_cost_learn_how_many_workers_share_a_host_and_the_links() -> None:
    links = {"between": {"latency": "1ms", "bandwidth": "1Gbit/s"}, "within": {"latency": "1us", "bandwidth": "1GB/s"}}
    cluster = read_cluster({"hosts": [{"workers": 3}, {"workers": 2}], "links": links}, "lab.toml")
    assert cluster.ground(4) == Ground((3, 1), cluster.within, cluster.between)
    assert cluster.ground(8).sizes == (3, 2, 3)


def test_edge_has_unequal_speeds_and_one_straggler_and_the_others_have_neither() -> None:
    edge = load_cluster("edge")
    assert len({host.speed for host in edge.hosts}) == 3
    assert edge.stragglers == (Straggler(worker=1, factor=4.0),)
    for name in set(PACKAGED) - {"edge"}:
        equal = load_cluster(name)
        assert ({host.speed for host in equal.hosts}, equal.stragglers) == ({1.0}, ())


def test_a_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        """
        [compute]
        seconds_per_sample = 2e-3
        variation = 0.1
        step_s = [[0.1, 0.2], [0.3]]
        [[hosts]]
        count = 2
        workers = 3
        speed = 0.5
        [[hosts]]
        seconds_per_sample = 7e-3
        [links.between]
        latency = "2ms"
        bandwidth = "1MB/s"
        [links.within]
        latency = "1us"
        bandwidth = "1GB/s"
        [[stragglers]]
        worker = 2
        factor = 3
        """
    )
    assert load_cluster(str(path)) == Cluster(
        name="lab",
        hosts=(HostSpec(2, 3, 0.5), HostSpec(1, 1, 1.0, 7e-3)),
        between=Link(2e-3, 1e6),
        within=Link(1e-6, 1e9),
        seconds_per_sample=2e-3,
        variation=0.1,
        stragglers=(Straggler(2, 3.0),),
        step_s=((0.1, 0.2), (0.3,)),
    )


def test_the_smallest_file_has_one_host_and_a_link() -> None:
    cluster = read_cluster(SMALLEST, "lab.toml")
    assert cluster == Cluster("lab", (HostSpec(),), Link(1e-3, 125e6))
    assert cluster.num_workers == 1


def test_workers_fill_hosts_in_order_and_start_over_when_there_are_more() -> None:
    cluster = Cluster("lab", (HostSpec(1, 2), HostSpec(1, 1, speed=2.0)), Link(0.0, 1.0), seconds_per_sample=1.0)
    assert cluster.place(5) == ClusterPlacement(
        hosts=(0, 0, 1, 2, 2),
        seconds_per_sample=(1.0, 1.0, 0.5, 1.0, 1.0),
        seconds_per_step=(0.0,) * 5,
        factors=(1.0,) * 5,
    )
    assert cluster.place(1) == ClusterPlacement((0,), (1.0,), (0.0,), (1.0,))


def test_a_straggler_takes_longer_and_one_beyond_the_workers_is_not_there() -> None:
    cluster = Cluster("lab", (HostSpec(8),), Link(0.0, 1.0), stragglers=(Straggler(1, 4.0), Straggler(6, 2.0)))
    assert cluster.place(3).seconds_per_sample == (1e-3, 4e-3, 1e-3)


def test_a_measured_time_stands_in_for_what_was_there_except_a_hosts_own() -> None:
    cluster = Cluster("lab", (HostSpec(), HostSpec(seconds_per_sample=9.0)), Link(0.0, 1.0), step_s=((1.0,),))
    measured = cluster.with_seconds_per_sample(0.5)
    assert measured.place(2).seconds_per_sample == (0.5, 9.0)
    assert measured.step_s == ()


def test_an_unknown_cluster_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError) as refused:
        load_cluster("egde")
    assert str(refused.value) == (
        "cluster 'egde' is not known.\n  Did you mean 'edge'? A path to a file ends in .toml."
    )


@pytest.mark.parametrize(
    "hosts", [[], [{"count": 0}], [{"workers": 0}], [{"count": 0, "workers": 4}, {"count": 4, "workers": 0}]]
)
def test_a_cluster_without_workers_is_refused(hosts: list[dict[str, int]]) -> None:
    assert refusal({"hosts": hosts}) == (
        "cluster 'lab.toml' has no workers.\n  Add hosts: [[hosts]] with count = 4 and workers = 1."
    )


def test_hosts_that_are_not_linked_are_refused() -> None:
    assert refusal({"links": {}}) == (
        "cluster 'lab.toml' does not say how its hosts are linked.\n"
        '  Add [links.between] with latency = "0.5ms" and bandwidth = "1Gbit/s".'
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"host": []}, "lab.toml has an unknown key 'host'.\n  Did you mean 'hosts'?"),
        (
            {"compute": {"variaton": 1}},
            "lab.toml: [compute] has an unknown key 'variaton'.\n  Did you mean 'variation'?",
        ),
        (
            {"codecs": {"topk": {"encode": "1GB/s"}}},
            "lab.toml: [codecs] topk is {'encode': '1GB/s'}, but must say how fast it encodes and decodes.\n"
            '  Write e.g. topk = { encode = "1GB/s", decode = "2GB/s" }.',
        ),
        ({"hosts": [{"sped": 2}]}, "lab.toml: [[hosts]] has an unknown key 'sped'.\n  Did you mean 'speed'?"),
        (
            {"links": {**BETWEEN, "inside": {}}},
            "lab.toml: [links] has an unknown key 'inside'.\n  Known: between, within.",
        ),
        (
            {"links": {"between": {"lag": "1ms"}}},
            "lab.toml: [links.between] has an unknown key 'lag'.\n  Known: bandwidth, latency.",
        ),
        (
            {"stragglers": [{"worker": 0, "factr": 2}]},
            "lab.toml: [[stragglers]] has an unknown key 'factr'.\n  Did you mean 'factor'?",
        ),
    ],
)
def test_an_unknown_key_gets_the_nearest_one_and_its_place(table: dict[str, Any], message: str) -> None:
    assert refusal(table) == message


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"hosts": [{"speed": 0}]},
            "speed of a host is 0, but must be greater than 0: at least 1e-18.\n  Write e.g. 0.5.",
        ),
        (
            {"hosts": [{"speed": -1}]},
            "speed of a host is -1, but must be a number, 0 or more and at most 1e+18.\n  Write e.g. 0.5.",
        ),
        (
            {"hosts": [{"speed": True}]},
            "speed of a host is True, but must be a number, 0 or more and at most 1e+18.\n  Write e.g. 0.5.",
        ),
        (
            {"hosts": [{"seconds_per_sample": "1ms"}]},
            "seconds_per_sample of a host is '1ms', but must be a number, 0 or more and at most 1e+18.\n"
            "  Write e.g. 0.5.",
        ),
        (
            {"compute": {"seconds_per_sample": float("inf")}},
            "seconds_per_sample is inf, but must be a number, 0 or more and at most 1e+18.\n  Write e.g. 0.5.",
        ),
        (
            {"compute": {"variation": -0.1}},
            "variation is -0.1, but must be a number, 0 or more and at most 1e+18.\n  Write e.g. 0.5.",
        ),
        (
            {"hosts": [{"count": -1}]},
            "count of hosts is -1, but must be a whole number, 0 or more and at most 1e+18.\n  Write e.g. 1.",
        ),
        (
            {"hosts": [{"workers": 1.5}]},
            "workers of a host is 1.5, but must be a whole number, 0 or more and at most 1e+18.\n  Write e.g. 1.",
        ),
        (
            {"stragglers": [{"worker": -1}]},
            "worker of a straggler is -1, but must be a whole number, 0 or more and at most 1e+18.\n  Write e.g. 1.",
        ),
        ({"stragglers": [{"factor": 2}]}, "[[stragglers]] does not say which worker it is.\n  Add worker = 0."),
        (
            {"stragglers": [{"worker": 0, "factor": 0}]},
            "factor of a straggler is 0, but must be greater than 0: at least 1e-18.\n  Write e.g. 0.5.",
        ),
        (
            {"links": {"between": {"bandwidth": "0Mbit/s"}}},
            "[links.between] bandwidth is 0.0, but must be greater than 0: at least 1e-18.\n  Write e.g. 0.5.",
        ),
        (
            {"links": {"between": {"latency": "soon"}}},
            "[links.between] latency is 'soon', but wants a number with one of the units s, ms, us, ns.\n"
            '  Write e.g. "30ms".',
        ),
        (
            {"links": {"between": "1ms"}},
            "links: 'between' is '1ms', but must be a table.\n  Write [between] above its keys.",
        ),
        ({"compute": 3}, "'compute' is 3, but must be a table.\n  Write [compute] above its keys."),
        ({"hosts": {"count": 2}}, "'hosts' must be a list of tables.\n  Write [[hosts]] above each of them."),
        (
            {"compute": {"step_s": [[]]}},
            "step_s is not a list of step times for each worker.\n"
            "  Write e.g. step_s = [[0.10, 0.12], [0.30]], in seconds; rows repeat.",
        ),
        (
            {"compute": {"step_s": [[0]]}},
            "a step time is 0, but must be greater than 0: at least 1e-18.\n  Write e.g. 0.5.",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(table: dict[str, Any], message: str) -> None:
    assert refusal(table) == f"lab.toml: {message}"


def test_a_step_costs_more_on_a_slow_host_and_a_straggler_costs_more_where_cores_are_its_own() -> None:
    cluster = Cluster("lab", (HostSpec(2, 1, speed=0.5),), Link(0.0, 1.0)).with_stragglers({1: 4.0})
    cluster = replace(cluster, seconds_per_step=3.0, seconds_per_sample=1.0)
    place = cluster.place(2)
    assert (place.seconds_per_sample, place.seconds_per_step) == ((2.0, 8.0), (6.0, 24.0))
    shared = replace(cluster, cores=1).place(2)
    assert (shared.seconds_per_sample, shared.seconds_per_step, shared.factors) == ((2.0, 2.0), (6.0, 6.0), (1.0, 4.0))


def test_a_factor_below_1_is_a_faster_worker_whether_cores_are_shared_or_not() -> None:
    cluster = Cluster("lab", (HostSpec(2),), Link(0.0, 1.0), seconds_per_sample=1.0, seconds_per_step=3.0)
    cluster = cluster.with_stragglers({0: 0.5})
    own, shared = cluster.place(2), replace(cluster, cores=1).place(2)
    assert (own.seconds_per_sample, own.seconds_per_step) == ((0.5, 1.0), (1.5, 3.0))
    assert (shared.seconds_per_sample, shared.seconds_per_step) == ((0.5, 1.0), (1.5, 3.0))
    assert shared.factors == (1.0, 1.0)


def test_hosts_without_cores_are_refused() -> None:
    table = {"compute": {"cores": 0}, "hosts": [{}], "links": {"between": {}}}
    with pytest.raises(ConfigError, match="cores of a host are 0"):
        read_cluster(table, "lab")


def test_what_a_loss_takes_is_said_with_units_and_the_rest_is_as_measured() -> None:
    hosts = {"hosts": [{}], "links": {"between": {}}}
    assert read_cluster(hosts, "small").recovery == RecoveryTimes()
    told = read_cluster({**hosts, "recovery": {"notice": "50ms", "start": "2s"}}, "small").recovery
    assert told == RecoveryTimes(notice_s=0.05, start_s=2.0)
    with pytest.raises(ConfigError, match=r"\[recovery\] has an unknown key 'starts'.\n  Did you mean 'start'\?"):
        read_cluster({**hosts, "recovery": {"starts": "2s"}}, "small")
