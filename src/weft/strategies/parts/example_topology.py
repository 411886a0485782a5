"""A topology for an example of a strategy: one that fits most numbers of workers without being told more."""

from random import Random

from weft.topologies import Complete, Exponential, Hypercube, Mesh, Ring, Star, Topology, Torus, Tree

EXAMPLES: tuple[Topology, ...] = (
    Complete(),
    Ring(),
    Torus(),
    Mesh(),
    Hypercube(),
    Exponential(),
    Tree(),
    Star(),
)


def example_topology(rng: Random) -> Topology:
    """One of them; some fit not every number of workers."""
    return rng.choice(EXAMPLES)
