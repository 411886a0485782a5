"""Everybody sends 1, 2, 4, 8, ... places ahead."""

import pytest

from weft.topologies import Exponential


def test_place_i_sends_to_all_powers_of_two_ahead() -> None:
    graph = Exponential().graph(16)
    assert graph.targets(0) == (1, 2, 4, 8)
    assert graph.targets(15) == (0, 1, 3, 7)
    assert graph.sources(0) == (8, 12, 14, 15)
    assert not graph.is_undirected
    assert graph.diameter == 4


def test_a_number_between_powers_of_two_rounds_up() -> None:
    assert Exponential().graph(5).targets(0) == (1, 2, 4)
    assert Exponential().graph(7).targets(6) == (0, 1, 3)


def test_one_peer_sends_to_one_place_in_each_round_in_turn() -> None:
    graph = Exponential(one_peer=True).graph(8)
    assert [graph.targets(0, clock) for clock in range(4)] == [(1,), (2,), (4,), (1,)]
    assert graph.degree == 1
    assert graph.edges_per_step == 8


@pytest.mark.parametrize("num_places", [2, 3, 5, 8, 13, 16])
def test_news_of_one_peer_reaches_everybody_in_as_many_rounds_as_there_are(num_places: int) -> None:
    graph = Exponential(one_peer=True).graph(num_places)
    assert graph.num_rounds == (num_places - 1).bit_length()
    assert graph.lead_max == graph.num_rounds
