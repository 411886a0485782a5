"""Examples of strategies come over every topology that needs no parameters."""

from random import Random

from weft.config.registry import TOPOLOGIES
from weft.strategies.parts.example_topology import EXAMPLES, example_topology

TOLD_MORE = {"custom", "hierarchy", "random_regular"}
"""Those that are told their edges, their groups or a degree that fits."""


def test_every_topology_that_needs_no_parameters_is_an_example() -> None:
    assert [str(topology) for topology in EXAMPLES] == [name for name in TOPOLOGIES if name not in TOLD_MORE]
    assert {example_topology(Random(seed)) for seed in range(100)} == set(EXAMPLES)
