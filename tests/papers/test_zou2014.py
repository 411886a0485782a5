"""Zou et al. 2014, "Mariana: Tencent Deep Learning Platform and its Applications": parameters exchanged on a line.

L is 1000 ns, G is 1 ns per byte and the bucket has 1680 bytes, so that every term is a whole number.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from support.simulated.problems import nothing
from support.simulated.reducers import ReduceOnce

from weft.config.registry import lowered
from weft.core.names import NodeId
from weft.cost.collectives import partitioned_linear_s
from weft.cost.links import Link
from weft.sim.compute import Trace
from weft.sim.kernel import to_ns
from weft.sim.network import Levels
from weft.testing.worlds import simulate_arrays

L_NS, NUM_BYTES = 1000, 1680
STEP_NS = 1_000_000


class PairLinks:
    """Every two nodes have a full-duplex link of their own, as neighbours behind PCIe switches have."""

    def __init__(self) -> None:
        self._free_ns: dict[tuple[NodeId, NodeId], int] = {}
        self.used: set[tuple[NodeId, NodeId]] = set()

    def send(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> tuple[int, bool]:
        start_ns = max(now_ns, self._free_ns.get((source, target), 0))
        self._free_ns[source, target] = start_ns + num_bytes
        self.used.add((source, target))
        return start_ns + L_NS + num_bytes, True

    def come_in(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> int:
        return now_ns

    def levels(self, group: Sequence[NodeId]) -> Levels:
        return [(len(group), Link(L_NS / 1e9, 1e9))]


def reduced(collective: str, size: int) -> tuple[int, PairLinks]:
    """How long a reduction takes, and the links it used."""
    links = PairLinks()
    ran = simulate_arrays(
        lowered(ReduceOnce(), collective),
        size,
        nothing,
        starts=[np.zeros(NUM_BYTES // 8)] * size,
        network=links,
        compute=Trace([[STEP_NS / 1e9]]),
    )
    return ran.simulation.kernel.now_ns - STEP_NS, links


@pytest.mark.parametrize("size", [2, 3, 5, 6, 7])
def test_an_exchange_takes_two_times_p_minus_one_cycles_of_one_partition(size: int) -> None:
    measured_ns, _ = reduced("partitioned_linear", size)
    assert measured_ns == 2 * (size - 1) * (L_NS + NUM_BYTES // size)
    assert measured_ns == to_ns(partitioned_linear_s(size, NUM_BYTES, Link(L_NS / 1e9, 1e9)))


def test_only_neighbours_on_the_line_speak_where_a_ring_also_joins_its_ends() -> None:
    line = {(i, i + 1) for i in range(5)} | {(i + 1, i) for i in range(5)}
    assert reduced("partitioned_linear", 6)[1].used == line
    assert (5, 0) in reduced("ring", 6)[1].used
