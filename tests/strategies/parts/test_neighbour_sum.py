"""The weighted parameters of one round, whoever sends them and whoever leaves."""

import pytest

from weft.core.actions import Combine
from weft.core.names import Buffer, Roles
from weft.core.world import World
from weft.strategies.parts.neighbour_sum import NeighbourSum
from weft.testing.peers import IN0, IN1, P0, P1, TWO

S0, S1 = Buffer("mix.0", 0), Buffer("mix.0", 1)
ROW = {0: 0.5, 1: 0.25, 2: 0.125, 3: 0.125}


def neighbour_sum(by_samples: bool = False) -> NeighbourSum:
    """Of worker 0."""
    return NeighbourSum(0, World(Roles(4), TWO), 7, {0: S0, 1: S1}, ROW, by_samples)


def test_the_first_begins_a_sum_and_the_others_are_added_by_their_weight() -> None:
    round_ = neighbour_sum()
    assert round_.missing == 8
    assert round_.add(1, 0, IN0, 9.0) == Combine(S0, 0.0, IN0, 0.25)
    assert round_.add(0, 0, P0, 9.0) == Combine(S0, 1.0, P0, 0.5)
    assert round_.add(2, 1, IN1, 9.0) == Combine(S1, 0.0, IN1, 0.125)
    assert (round_.missing, round_.view) == (5, 7)


def test_it_knows_who_takes_part_and_who_is_late() -> None:
    round_ = neighbour_sum()
    round_.add(0, 0, P0, 1.0)
    round_.add(0, 1, P1, 1.0)
    round_.add(2, 0, IN0, 1.0)
    assert round_.expects(3)
    assert not round_.expects(4)
    assert round_.late() == [1, 2, 3]
    round_.forget({1, 3})
    assert round_.late() == [2]


def test_the_weight_of_one_who_left_goes_to_the_own_parameters() -> None:
    round_ = neighbour_sum()
    round_.add(0, 0, P0, 1.0)
    assert round_.forget({1}) == [Combine(S0, 1.0, P0, 0.25)]
    assert round_.add(0, 1, P1, 1.0) == Combine(S1, 0.0, P1, 0.75)
    assert round_.missing == 4


def test_what_one_who_left_had_sent_counts_bucket_by_bucket() -> None:
    round_ = neighbour_sum()
    round_.add(1, 0, IN0, 1.0)
    round_.add(0, 0, P0, 1.0)
    round_.add(0, 1, P1, 1.0)
    assert round_.forget({1}) == [Combine(S1, 1.0, P1, 0.25)]
    assert round_.missing == 4


def test_nobody_is_forgotten_twice() -> None:
    round_ = neighbour_sum()
    round_.add(0, 0, P0, 1.0)
    round_.forget({1, 9})
    assert round_.forget({1, 2, 9}) == [Combine(S0, 1.0, P0, 0.125)]
    assert round_.gone == [1, 2]


def test_weights_add_up_to_one_whoever_leaves_whenever() -> None:
    for leaves_after in range(4):
        round_, total = neighbour_sum(), 0.0
        for place, node in enumerate((1, 0, 3)):
            if place == leaves_after:
                total += sum(action.scale for action in round_.forget({2}) if isinstance(action, Combine))
            total += round_.add(node, 0, IN0 if node else P0, 1.0).scale
        total += sum(action.scale for action in round_.forget({2}) if isinstance(action, Combine))
        assert total == pytest.approx(1.0)


def test_by_samples_those_who_left_are_not_replaced() -> None:
    round_ = neighbour_sum(by_samples=True)
    assert round_.add(0, 0, P0, 3.0) == Combine(S0, 0.0, P0, 3.0)
    assert round_.add(1, 0, IN0, 2.0) == Combine(S0, 1.0, IN0, 2.0)
    assert round_.forget({1, 2}) == []
    assert round_.weight == {0: 5.0}
    assert round_.missing == 8 - 2 - 1 - 2
