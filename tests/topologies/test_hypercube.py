"""Places whose numbers differ in one bit talk."""

import re

import pytest

from weft.core.errors import ConfigError
from weft.topologies import Hypercube


def test_neighbours_differ_in_one_bit() -> None:
    graph = Hypercube().graph(8)
    assert graph.targets(0b101) == (0b001, 0b100, 0b111)
    assert graph.diameter == 3


def test_other_numbers_than_powers_of_two_are_refused_with_the_numbers_that_fit() -> None:
    message = (
        "topology 'hypercube' needs a power of two, but there are 12 workers.\n"
        "  Use 8 or 16 workers, or 'exponential', which has as many neighbours and fits any number."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Hypercube().graph(12)
