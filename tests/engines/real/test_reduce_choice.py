"""How a run reduces: what is asked for, or native where that is possible, or else the cheapest; and why."""

from typing import Any

import pytest
from support.processes.sessions import reductions_of

from weft.config.compression import cheapest, codec
from weft.config.network import EmulatedNetwork
from weft.config.registry import strategy as strategy_of
from weft.cost.links import Link
from weft.engines.real.reduce_choice import GOES_ON, ONE_STREAM, PLACES, ChosenReduction, ReductionChoice
from weft.runtime.connections import LINKS, SHM, TCP, TLS, TORCH

TWO_HOSTS = (0, 0, 1, 1)


def choice(**asked: Any) -> ReductionChoice:
    return reductions_of(4, **asked)


@pytest.mark.parametrize(
    ("asked", "collective"),
    [
        ({}, None),
        ({"transport": TORCH}, None),
        ({"hosts": TWO_HOSTS}, None),
        ({"collective": "ring"}, "ring"),
        ({"transport": TCP}, None),
        ({"transport": TCP, "collective": "ring"}, "ring"),
        ({"transport": TCP, "hosts": TWO_HOSTS}, None),
        ({"survives": True}, None),
        ({"survives": True, "transport": TCP}, "butterfly"),
        ({"survives": True, "transport": TCP, "hosts": TWO_HOSTS}, "hierarchical"),
        ({"survives": True, "hosts": TWO_HOSTS}, "hierarchical"),
        ({"survives": True, "hosts": TWO_HOSTS, "collective": "ring"}, "ring"),
    ],
)
def test_reductions_are_native_unless_others_are_asked_for_or_have_to_go_on_without_a_lost_worker(
    asked: dict[str, Any], collective: str | None
) -> None:
    assert choice(**asked).choose(strategy_of("allreduce"), None, 100_000) == ChosenReduction(collective)


def test_the_cheapest_collective_depends_on_the_size_of_the_model() -> None:
    asked, allreduce = choice(transport=TCP, survives=True), strategy_of("allreduce")
    chosen = [asked.choose(allreduce, None, size).collective for size in (100_000, 100_000_000)]
    assert chosen == ["butterfly", "halving_doubling"]


def test_a_strategy_that_reduces_nothing_needs_neither_collective_nor_scheme() -> None:
    gossip = strategy_of("gossip")
    assert choice(transport=TCP).choose(gossip, None, 100_000) == ChosenReduction()
    assert choice(transport=TCP).choose(gossip, "int8", 100_000) == ChosenReduction()


def test_a_strategy_of_the_scripts_own_may_reduce_too() -> None:
    assert choice(transport=TCP, survives=True).choose(None, None, 100_000) == ChosenReduction("butterfly")


def test_what_is_compressed_is_reduced_by_messages_in_the_cheapest_scheme_of_its_codec() -> None:
    chosen = choice().choose(strategy_of("allreduce"), "int8", 100_000)
    assert chosen.collective is not None
    assert chosen.scheme == cheapest(codec("int8"), 100_000, 4, LINKS[SHM])
    assert not chosen.sums_hosts


def test_hosts_sum_before_they_code_where_workers_share_links_unless_others_go_on_without_them() -> None:
    allreduce = strategy_of("allreduce")
    on_hosts = choice(hosts=TWO_HOSTS).choose(allreduce, "onebit", 100_000)
    assert on_hosts == ChosenReduction(
        "hierarchical", cheapest(codec("onebit"), 100_000, 2, LINKS[TLS]), sums_hosts=True
    )
    assert choice(hosts=TWO_HOSTS).explain(allreduce, "allreduce", "onebit", 100_000, []).coding.sums_hosts
    assert not choice(hosts=TWO_HOSTS, survives=True).choose(allreduce, "onebit", 100_000).sums_hosts
    assert not choice(hosts=(0, 1, 2, 3)).choose(allreduce, "onebit", 100_000).sums_hosts


@pytest.mark.parametrize(
    ("asked", "place", "link"),
    [
        ({}, f"processes of this machine over {PLACES[SHM]}", LINKS[SHM]),
        ({"transport": TCP}, "processes of this machine over sockets (tcp)", LINKS[TCP]),
        (
            {"transport": TCP, "network": EmulatedNetwork(1e9, 2.0)},
            "processes of this machine over sockets (tcp), 8 Gbit/s, 2000 ms",
            Link(2.0, 1e9),
        ),
        (
            {"hosts": TWO_HOSTS},
            "processes on 2 hosts: shared memory within a host, TLS between them",
            LINKS[TLS],
        ),
        (
            {"hosts": TWO_HOSTS, "trusts_network": True},
            "processes on 2 hosts: shared memory within a host, sockets (tcp) between them",
            LINKS[TCP],
        ),
        (
            {"hosts": TWO_HOSTS, "network": EmulatedNetwork(1e9, 2.0)},
            "processes on 2 hosts: shared memory within a host, sockets (tcp) between them, 8 Gbit/s, 2000 ms",
            Link(2.0, 1e9),
        ),
    ],
)
def test_where_the_workers_run_is_said_and_the_link_that_is_assumed(
    asked: dict[str, Any], place: str, link: Link
) -> None:
    told = choice(**asked).explain(strategy_of("allreduce"), "allreduce", None, 100_000, [])
    assert (told.place, told.link, told.num_workers) == (place, link, 4)


def test_why_a_hierarchical_collective_was_taken_is_said_only_if_it_was_not_asked_for() -> None:
    asked = {"transport": TCP, "hosts": TWO_HOSTS}
    allreduce = strategy_of("allreduce")
    assert choice(**asked).explain(allreduce, "allreduce", "fp16", 100_000, []).why == ONE_STREAM
    assert choice(**asked, collective="ring").explain(allreduce, "allreduce", "fp16", 100_000, []).why == ""
    assert choice(transport=TCP).explain(allreduce, "allreduce", "fp16", 100_000, []).why == "", (
        "on one host, none shares"
    )


def test_that_sums_between_hosts_could_not_survive_is_said_where_they_would_have_been_made() -> None:
    asked = {"survives": True, "hosts": (0, 1, 2, 3)}
    allreduce = strategy_of("allreduce")
    assert choice(**asked).explain(allreduce, "allreduce", None, 100_000, []).why == GOES_ON
    assert choice(**asked, collective="ring").explain(allreduce, "allreduce", None, 100_000, []).why == ""
    assert choice(**asked).explain(allreduce, "allreduce", "fp16", 100_000, []).why == ""
    assert choice(**asked).explain(strategy_of("gossip"), "gossip", None, 100_000, []).why == ""
    assert choice(survives=True).explain(allreduce, "allreduce", None, 100_000, []).why == ""


@pytest.mark.parametrize(
    ("asked", "layout", "native"),
    [
        ({}, [], "summed in shared memory, where the gradients lie"),
        (
            {"transport": TCP},
            [],
            "summed over sockets, piece by piece, between where the gradients and the sums lie",
        ),
        ({"transport": TORCH}, ["w (3,) float32"], "summed by torch.distributed (gloo)"),
        (
            {"transport": TORCH},
            ["w (3,) float32 on cuda"],
            "summed by torch.distributed (nccl), on the GPUs where the models are",
        ),
        (
            {"on_devices": (1,), "reduce_place": "device"},
            [],
            "summed on the devices of worker 1; what is on the host is copied there, and the sum back",
        ),
    ],
)
def test_how_native_reductions_are_done_is_said(asked: dict[str, Any], layout: list[str], native: str) -> None:
    assert choice(**asked).explain(strategy_of("allreduce"), "allreduce", None, 100_000, layout).native == native
