"""The simulator's native Reduce: done at once, at the cost of the formula."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.simulated.problems import nothing
from support.simulated.reducers import ReduceOnce

from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import MAX, MEAN, SUM, Reduce
from weft.core.errors import IllegalAction
from weft.core.events import Reduced
from weft.core.names import Buffer
from weft.core.rules import SGD
from weft.cost.collectives import allreduce_s, allreduce_transfer_s
from weft.cost.links import Link
from weft.sim.compute import Trace
from weft.sim.kernel import Kernel, to_ns
from weft.sim.native import NativeReduce
from weft.sim.network import HostLinks
from weft.store.numpy import NumpyStore
from weft.testing.worlds import simulate_arrays

LINK = Link(1e-3, 1e6)
PARAMS, GRADIENT = Buffer("params", 0), Buffer("gradient", 0)
ALL = (0, 1, 2)


@dataclass
class Node:
    """A node, as far as collectives know it."""

    id: int
    store: Any


class Group:
    """Three nodes with one number each, on hosts of their own."""

    def __init__(self, *values: float) -> None:
        replicas = [ArrayReplica({"w": np.array([value])}, SGD(lr=1.0), None) for value in values]
        self.nodes = [Node(i, NumpyStore(replica, [], {})) for i, replica in enumerate(replicas)]
        self.kernel = Kernel()
        self.told: list[tuple[int, int, Reduced]] = []
        network = HostLinks(range(len(values)), [LINK] * len(values), LINK)
        self.native = NativeReduce(self.kernel, network, lambda node: self.nodes[node], self.tell)

    def tell(self, node: int, event: Reduced) -> None:
        self.told.append((self.kernel.now_ns, node, event))

    def join(self, node: int, weight: float = 1.0, op: str = MEAN, clock: int = 0, buffer: Buffer = PARAMS) -> int:
        return self.native.join(self.nodes[node], Reduce(ALL, "average", clock, buffer, op, weight))

    def values(self) -> list[float]:
        return [float(node.store.capture(PARAMS)[0]) for node in self.nodes]


COST_NS = to_ns(allreduce_s(3, 8, LINK))
TRANSFER_NS = to_ns(allreduce_transfer_s(3, 8, LINK))


def test_all_members_get_the_result_together_at_the_cost_of_the_formula() -> None:
    group = Group(1.0, 2.0, 6.0)
    assert [group.join(node, weight) for node, weight in ((2, 1.0), (0, 2.0), (1, 1.0))] == [0, 0, 2 * 2 * 8]
    assert group.values() == [1, 2, 6], "inputs stand until the end"
    group.kernel.run()
    assert group.values() == [2.5, 2.5, 2.5]
    assert group.told == [(COST_NS, node, Reduced(0, PARAMS, 4.0)) for node in ALL]


@pytest.mark.parametrize(("op", "result"), [(SUM, 13.0), (MAX, 6.0)])
def test_sums_are_weighted_and_maxima_are_not(op: str, result: float) -> None:
    group = Group(1.0, 6.0, 100.0)
    for node, weight in enumerate((1.0, 2.0, 0.0)):
        group.join(node, weight, op)
    group.kernel.run()
    assert group.values() == [result] * 3


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_sums_are_made_in_rank_order_whoever_comes_first(order: tuple[int, int, int]) -> None:
    group = Group(1e16, 1.0, -1e16)
    for node in order:
        group.native.join(group.nodes[node], Reduce(order, "average", 0, PARAMS, SUM, 1.0))
    group.kernel.run()
    assert group.values() == [0.0] * 3


def test_a_contribution_is_the_value_when_it_was_given() -> None:
    group = Group(1.0, 2.0, 6.0)
    for node in ALL:
        group.join(node)
        group.nodes[node].store.write(PARAMS, np.array([100.0]))
    group.kernel.run()
    assert group.values() == [3, 3, 3]


def test_without_any_weight_nothing_changes() -> None:
    group = Group(1.0, 2.0, 6.0)
    for node in ALL:
        group.join(node, weight=0.0)
    group.kernel.run()
    assert group.values() == [1, 2, 6]
    assert [event for _, _, event in group.told] == [Reduced(0, PARAMS, 0.0)] * 3


def test_reductions_of_one_group_take_turns_on_the_link_and_overlap_their_latencies() -> None:
    group = Group(1.0, 2.0, 6.0)
    for clock in (0, 1):
        for node in ALL:
            group.join(node, clock=clock)
    group.kernel.run()
    assert [(at, event.clock) for at, node, event in group.told if node == 0] == [
        (COST_NS, 0),
        (COST_NS + TRANSFER_NS, 1),
    ]


def test_reductions_that_differ_in_clock_kind_or_buffer_do_not_mix() -> None:
    group = Group(1.0, 2.0, 6.0)
    group.join(0, clock=0)
    group.join(1, clock=1)
    group.join(2, buffer=GRADIENT)
    group.kernel.run()
    assert group.told == []
    assert group.native.missing() == [
        "the reduction of 'average' at clock 0 lacks node [1, 2]",
        "the reduction of 'average' at clock 1 lacks node [0, 2]",
        "the reduction of 'average' at clock 0 lacks node [0, 1]",
    ]


@pytest.mark.parametrize(
    "action",
    [
        Reduce((1, 2), "average", 0, PARAMS, MEAN, 1.0),
        Reduce(ALL, "average", 0, PARAMS, "median", 1.0),
        Reduce(ALL, "average", 0, PARAMS, MEAN, -1.0),
    ],
)
def test_a_reduce_of_strangers_with_an_unknown_op_or_a_negative_weight_is_illegal(action: Reduce) -> None:
    group = Group(1.0, 2.0, 6.0)
    message = (
        f"{action} must name its own node in the group, an op of ('mean', 'sum', 'max') and a weight of at least 0."
    )
    with pytest.raises(IllegalAction, match=f"^{re.escape(message)}$"):
        group.native.join(group.nodes[0], action)


def test_joining_twice_is_illegal() -> None:
    group = Group(1.0, 2.0, 6.0)
    group.join(0)
    with pytest.raises(IllegalAction, match=r"^Reduce\(.*clock=0.*\) was emitted twice by node 0.$"):
        group.join(0)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 1, 3, 2), (1, 1), (4,)], ids=str)
def test_on_several_hosts_it_takes_what_its_levels_take(sizes: tuple[int, ...]) -> None:
    within, between = Link(1e-6, 4e9), Link(20e-6, 1e9)
    hosts = tuple(host for host, size in enumerate(sizes) for _ in range(size))
    ran = simulate_arrays(
        ReduceOnce(),
        len(hosts),
        nothing,
        starts=[np.zeros(8000)] * len(hosts),
        hosts=hosts,
        network=HostLinks(hosts, [between] * len(sizes), within),
        compute=Trace([[1.0]]),
    )
    expected_s = allreduce_s(max(sizes), 64_000, within)
    expected_s += allreduce_s(len(sizes), 64_000, between)
    assert ran.simulation.kernel.now_s - 1.0 == pytest.approx(expected_s, abs=1e-8)
