"""Ben-Nun & Hoefler 2018, "Demystifying Parallel and Distributed Deep Learning": what reductions cost.

L is 1000 ns, G is 1 ns per byte and the bucket has 1280 bytes, so that every term is a whole number.
"""

import numpy as np
import pytest
from support.simulated.problems import nothing
from support.simulated.reducers import ReduceOnce

from weft.config.registry import COLLECTIVES, lowered
from weft.core.strategy import Strategy
from weft.cost.collectives import (
    FORMULAS,
    allreduce_bytes,
    allreduce_s,
    halving_doubling_s,
    hierarchical_s,
    tree_s,
)
from weft.cost.links import Link
from weft.sim.compute import Trace
from weft.sim.kernel import to_ns
from weft.sim.network import HostLinks
from weft.strategies import AllReduce, LocalSGD
from weft.testing.worlds import Ran, simulate_arrays

L_NS, NUM_BYTES = 1000, 1280
STEP_NS = 1_000_000
LINK = Link(1e-6, 1e9)
WITHIN = Link(1e-7, 4e9)
BY_HAND = {
    "tree": lambda p, rounds: 2 * rounds * (L_NS + NUM_BYTES),
    "butterfly": lambda p, rounds: rounds * (L_NS + NUM_BYTES),
    "ring": lambda p, rounds: 2 * (p - 1) * (L_NS + NUM_BYTES // p),
    "halving_doubling": lambda p, rounds: 2 * rounds * L_NS + 2 * NUM_BYTES * (p - 1) // p,
}

powers = pytest.mark.parametrize("size", [2, 4, 8, 16])
every_formula = pytest.mark.parametrize("collective", FORMULAS)
every_collective = pytest.mark.parametrize("collective", COLLECTIVES)


def run(
    strategy: Strategy,
    size: int,
    num_elements: int = NUM_BYTES // 8,
    num_steps: int = 1,
    hosts: tuple[int, ...] | None = None,
) -> Ran:
    """One worker on each host unless told otherwise, full-duplex links, and 1 ms of computing in every step."""
    hosts = hosts or tuple(range(size))
    return simulate_arrays(
        strategy,
        size,
        nothing,
        num_steps=num_steps,
        starts=[np.zeros(num_elements)] * size,
        hosts=hosts,
        network=HostLinks(hosts, [LINK] * size, WITHIN),
        compute=Trace([[STEP_NS / 1e9]]),
    )


def reduction_ns(strategy: Strategy, size: int, num_elements: int = NUM_BYTES // 8) -> int:
    """Virtual time from the end of the step, when all begin to reduce, to the end of the last reduction."""
    return run(strategy, size, num_elements).simulation.kernel.now_ns - STEP_NS


@every_formula
@powers
def test_the_time_of_each_lowering_is_its_formula_to_the_nanosecond(collective: str, size: int) -> None:
    measured_ns = reduction_ns(lowered(ReduceOnce(), collective), size)
    assert measured_ns == to_ns(FORMULAS[collective](size, NUM_BYTES, LINK))
    assert measured_ns == BY_HAND[collective](size, size.bit_length() - 1)


@pytest.mark.parametrize("per_host", [1, 2, 4])
@powers
def test_the_time_of_the_hierarchical_lowering_is_the_sum_of_its_levels(size: int, per_host: int) -> None:
    hosts = tuple(rank // per_host for rank in range(size * per_host))
    ran = run(lowered(ReduceOnce(), "hierarchical"), len(hosts), hosts=hosts)
    measured_ns = ran.simulation.kernel.now_ns - STEP_NS
    assert measured_ns == to_ns(hierarchical_s([per_host] * size, NUM_BYTES, WITHIN, LINK))
    assert measured_ns == to_ns(tree_s(per_host, NUM_BYTES, WITHIN)) + to_ns(halving_doubling_s(size, NUM_BYTES, LINK))


@pytest.mark.slow
def test_where_workers_share_a_hosts_link_the_hierarchy_is_the_fastest_for_small_buckets() -> None:
    hosts = tuple(rank // 8 for rank in range(64))
    times_ns = {
        name: run(lowered(ReduceOnce(), name), 64, 200, hosts=hosts).simulation.kernel.now_ns - STEP_NS
        for name in COLLECTIVES
    }
    assert min(times_ns, key=lambda name: times_ns[name]) == "hierarchical"


@pytest.mark.parametrize("collective", ["ring", "butterfly", "halving_doubling"])
@powers
def test_where_all_end_together_every_step_costs_the_same(collective: str, size: int) -> None:
    ran = run(lowered(LocalSGD(period=1), collective), size, num_steps=5)
    once_ns = BY_HAND[collective](size, size.bit_length() - 1)
    assert ran.simulation.kernel.now_ns == 5 * (STEP_NS + once_ns)


@powers
def test_gradients_cost_what_parameters_cost(size: int) -> None:
    assert reduction_ns(AllReduce(), size) == reduction_ns(LocalSGD(period=1), size) == reduction_ns(ReduceOnce(), size)


@every_collective
def test_one_worker_alone_takes_no_time(collective: str) -> None:
    assert reduction_ns(lowered(ReduceOnce(), collective), 1) == 0
    assert reduction_ns(ReduceOnce(), 1) == 0


@pytest.mark.parametrize("num_elements", [2, 160, 1600, 160_000])
@powers
def test_a_native_reduction_costs_the_cheapest_formula(size: int, num_elements: int) -> None:
    prices = {name: to_ns(formula(size, num_elements * 8, LINK)) for name, formula in FORMULAS.items()}
    assert reduction_ns(ReduceOnce(), size, num_elements) == min(prices.values())
    assert allreduce_s(size, num_elements * 8, LINK) == min(f(size, num_elements * 8, LINK) for f in FORMULAS.values())


def test_small_buckets_want_few_latencies_and_large_ones_few_bytes() -> None:
    def cheapest(num_bytes: int) -> str:
        return min(FORMULAS, key=lambda name: FORMULAS[name](16, num_bytes, LINK))

    assert [cheapest(num_bytes) for num_bytes in (16, 1_600_000)] == ["butterfly", "halving_doubling"]


@every_collective
@powers
def test_no_lowering_beats_the_lower_bound(collective: str, size: int) -> None:
    bound_ns = (size.bit_length() - 1) * L_NS + 2 * NUM_BYTES * (size - 1) // size
    assert reduction_ns(lowered(ReduceOnce(), collective), size) >= bound_ns


@powers
def test_all_but_tree_and_butterfly_send_the_fewest_bytes(size: int) -> None:
    sent = {}
    for collective in (None, *COLLECTIVES):
        strategy = AllReduce() if collective is None else lowered(AllReduce(), collective)
        ran = simulate_arrays(strategy, size, nothing, starts=[np.zeros(NUM_BYTES // 8)] * size)
        sent[collective] = ran.facts.bytes_sent
    optimal = ("ring", "halving_doubling", "hierarchical", "partitioned_linear", None)
    assert {sent[collective] for collective in optimal} == {allreduce_bytes(size, NUM_BYTES)}
    assert sent["tree"] == 2 * (size - 1) * NUM_BYTES
    assert sent["butterfly"] == size * (size.bit_length() - 1) * NUM_BYTES
