"""Random weather for simulated worlds: delays over four decades, uneven and jittering speeds."""

from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.core.graph import Graph
from weft.sim.compute import PerSample
from weft.sim.network import RandomDelays
from weft.topologies import (
    Complete,
    Exponential,
    Hierarchy,
    Hypercube,
    Mesh,
    RandomRegular,
    Ring,
    Star,
    Topology,
    Torus,
    Tree,
)

TOPOLOGIES = (
    Complete(),
    Exponential(),
    Exponential(one_peer=True),
    Hierarchy(2),
    Hypercube(),
    Mesh(),
    RandomRegular(3, seed=1),
    Ring(),
    Star(),
    Torus(),
    Tree(),
)

MODERATE = settings(max_examples=30, deadline=None, derandomize=True)
"""Enough examples to meet an error, few enough to stay below two seconds; the same in every run."""

FEW = settings(MODERATE, max_examples=10)
"""For what is repeated for everything registered."""

SEEDS = st.integers(0, 2**32)


def storm(num_workers: int, seed: int) -> dict[str, Any]:
    """Options of `simulate_arrays`: every message and every step takes its own time, all drawn from the seed."""
    rng = Random(f"storm/{seed}")
    speeds = [1e-3 * 100 ** rng.random() for _ in range(num_workers)]
    return {"network": RandomDelays(rng), "compute": PerSample(speeds, sigma=0.5), "seed": seed}


def fits(topology: Topology, num_workers: int) -> bool:
    """Whether there is such a topology of that many workers."""
    try:
        return isinstance(topology.graph(num_workers), Graph)
    except ConfigError:
        return False


@st.composite
def places(draw: st.DrawFn, most: int = 16) -> tuple[Topology, int]:
    """A topology and a number of workers, 1 to `most`, that fit each other."""
    num_workers = draw(st.integers(1, most))
    return draw(st.sampled_from([topology for topology in TOPOLOGIES if fits(topology, num_workers)])), num_workers
