"""Which lowering is the cheapest where its workers sit."""

import numpy as np
import pytest
from support.simulated.problems import nothing
from support.simulated.reducers import ReduceOnce

from weft.config.registry import COLLECTIVES, lowered
from weft.cost import collectives
from weft.cost.choice import PRICES, Ground, cheapest, prices_s, taken
from weft.cost.collectives import FORMULAS
from weft.cost.links import Link
from weft.sim.compute import Trace
from weft.sim.network import HostLinks
from weft.testing.worlds import simulate_arrays

WITHIN, BETWEEN = Link(1e-6, 4e9), Link(20e-6, 1e9)
NUM_BYTES = 64_000


def test_every_collective_has_its_price() -> None:
    assert set(PRICES) == set(COLLECTIVES)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
@pytest.mark.parametrize("name", FORMULAS)
def test_on_one_host_and_on_hosts_of_one_worker_prices_are_the_formulas(name: str, size: int) -> None:
    together, apart = Ground((size,), WITHIN, BETWEEN), Ground((1,) * size, WITHIN, BETWEEN)
    assert PRICES[name](NUM_BYTES, together) == pytest.approx(FORMULAS[name](size, NUM_BYTES, WITHIN), rel=1e-12)
    assert PRICES[name](NUM_BYTES, apart) == pytest.approx(FORMULAS[name](size, NUM_BYTES, BETWEEN), rel=1e-12)


def test_on_a_line_with_one_link_for_both_neighbours_they_take_turns() -> None:
    pair, eight = (Ground((1,) * size, WITHIN, BETWEEN) for size in (2, 8))
    line_s = collectives.partitioned_linear_s
    assert PRICES["partitioned_linear"](NUM_BYTES, pair) == line_s(2, NUM_BYTES, BETWEEN)
    assert PRICES["partitioned_linear"](NUM_BYTES, eight) == line_s(8, 2 * NUM_BYTES, BETWEEN)


def simulated_s(name: str, ground: Ground, num_bytes: int) -> float:
    """How long one reduction takes in the simulator."""
    hosts = tuple(host for host, size in enumerate(ground.sizes) for _ in range(size))
    ran = simulate_arrays(
        lowered(ReduceOnce(), name),
        len(hosts),
        nothing,
        starts=[np.zeros(num_bytes // 8)] * len(hosts),
        hosts=hosts,
        network=HostLinks(hosts, [ground.between] * len(ground.sizes), ground.within),
        compute=Trace([[1.0]]),
    )
    return ran.simulation.kernel.now_s - 1.0


@pytest.mark.parametrize("num_bytes", [1_600, 160_000, 1_600_000])
@pytest.mark.parametrize("sizes", [(4,), (1,) * 8, (4,) * 4, (8,) * 2, (2,) * 8], ids=str)
def test_the_cheapest_by_price_is_close_to_the_fastest_in_the_simulator(sizes: tuple[int, ...], num_bytes: int) -> None:
    ground = Ground(sizes, WITHIN, BETWEEN)
    prices = prices_s([num_bytes], ground)
    times = {name: simulated_s(name, ground, num_bytes) for name in COLLECTIVES}
    assert times.pop("partitioned_linear") <= prices["partitioned_linear"]  # which is a bound
    assert times[cheapest(prices)] <= 1.1 * min(times.values())
    assert times == {name: pytest.approx(prices[name], rel=0.15) for name in times}


def test_small_models_want_few_messages_and_large_ones_few_bytes() -> None:
    ground = Ground((1,) * 16, WITHIN, BETWEEN)
    assert cheapest(prices_s([1000], ground)) == "butterfly"
    assert cheapest(prices_s([10**8], ground)) == "halving_doubling"
    assert cheapest(prices_s([10**7], Ground((8,) * 3, WITHIN, BETWEEN))) == "ring"


def test_buckets_are_reduced_one_after_another() -> None:
    ground = Ground((1,) * 4, WITHIN, BETWEEN)
    assert prices_s([500, 500], ground)["tree"] == 2 * prices_s([500], ground)["tree"]
    assert set(prices_s([], ground).values()) == {0}


def test_where_workers_share_a_link_one_stream_is_taken_and_elsewhere_the_cheapest() -> None:
    shared, alone = Ground((2, 1), WITHIN, BETWEEN), Ground((1, 1), WITHIN, BETWEEN)
    assert cheapest(prices_s([1000], shared)) == "butterfly"
    assert taken([1000], shared) == "hierarchical"
    assert taken([1000], alone) == taken([1000], Ground((4,), WITHIN, BETWEEN)) == "butterfly"
