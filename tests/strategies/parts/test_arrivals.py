"""Who has come into a run, and before which step."""

from weft.strategies.parts.arrivals import Arrivals


def test_who_came_before_a_step_is_not_compared_before_that_one_but_later() -> None:
    arrivals = Arrivals()
    assert arrivals.are_compared((0, 1, 2), 4) == (0, 1, 2)
    arrivals.note([1], 4)
    assert arrivals.are_compared((0, 1, 2), 4) == (0, 2)
    assert arrivals.are_compared((0, 1, 2), 5) == (0, 1, 2)


def test_who_comes_again_before_the_same_step_comes_with_those_who_came_first() -> None:
    arrivals = Arrivals()
    arrivals.note([1], 4)
    arrivals.note([3], 4)
    assert arrivals.are_compared((0, 1, 2, 3), 4) == (0, 2)
    arrivals.note([2], 6)
    assert arrivals.are_compared((0, 1, 2, 3), 6) == (0, 1, 3)
