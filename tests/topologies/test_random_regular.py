"""Everybody talks to the same number of others, drawn by lot."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import ConfigError
from weft.topologies import Complete, RandomRegular


@pytest.mark.slow
@given(st.integers(2, 40), st.integers(2, 9), st.integers(0, 1000))
def test_every_place_has_the_same_number_of_neighbours(num_places: int, degree: int, seed: int) -> None:
    num_places += num_places * degree % 2
    graph = RandomRegular(degree, seed).graph(num_places)
    assert {len(out) for out in graph.rounds[0]} == {min(degree, num_places - 1)}
    assert graph.is_undirected
    assert graph.is_connected


def test_the_same_seed_draws_the_same_graph_and_another_seed_another() -> None:
    first = RandomRegular(seed=1).graph(32)
    assert first.rounds == RandomRegular(seed=1).graph(32).rounds
    assert first.rounds != RandomRegular(seed=2).graph(32).rounds


def test_the_drawn_graph_is_written_down_so_that_no_version_changes_it() -> None:
    drawn = RandomRegular(degree=3).graph(8).rounds[0]
    assert drawn == ((1, 6, 7), (0, 5, 7), (3, 6, 7), (2, 4, 5), (3, 5, 6), (1, 3, 4), (0, 2, 4), (0, 1, 2))


def test_with_no_more_places_than_the_degree_everybody_talks_to_everybody() -> None:
    assert RandomRegular(degree=8).graph(5).rounds == Complete().graph(5).rounds


def test_an_odd_degree_on_an_odd_number_of_places_is_refused() -> None:
    message = (
        "topology 'random_regular(degree=3)' needs an even number of places, because its degree is odd, "
        "but there are 9 workers.\n  Use degree=4, or 8 or 10 workers."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        RandomRegular(degree=3).graph(9)


@pytest.mark.parametrize("degree", [1, 0, -3])
def test_a_degree_that_connects_nobody_is_refused(degree: int) -> None:
    message = (
        f"topology 'random_regular(degree={degree})' has a degree of {degree}, "
        "but news passes on only with 2 or more.\n"
        "  Use 'random_regular(degree=2)' for a ring in random order, or a higher degree."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        RandomRegular(degree=degree)
