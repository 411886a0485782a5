"""One piece of a sum between two hosts, hop by hop: factors, weights and what is complete."""

from typing import Any

import numpy as np
import pytest

from weft.core.actions import MAX, MEAN, SUM
from weft.core.names import Part
from weft.runtime.reduce.exchange import (
    UNKNOWN,
    About,
    CamePart,
    Exchange,
    Hop,
    HostSum,
    about_bytes,
    plan_of,
)

FIRST, SECOND = Part(0, 2), Part(1, 2)
SWAP = (Hop(1, None, is_sent=True), Hop(1, None, is_sent=False))
HALVES = (
    Hop(1, SECOND, is_sent=True),
    Hop(1, FIRST, is_sent=False),
    Hop(1, FIRST, is_sent=True),
    Hop(1, SECOND, is_sent=False, replaces=True),
)
ABOUT = About(5, 7, 3)


def exchange(op: str, mine: HostSum, hops: tuple[Hop, ...] = SWAP, me: int = 0) -> Exchange:
    weights = [UNKNOWN, UNKNOWN]
    weights[me] = mine.weight
    return Exchange(1, ABOUT, op, mine, plan_of(hops, None), weights)


def apart(values: list[float], weight: float, factor: float) -> HostSum:
    """A host's only contribution, which lies elsewhere than the total."""
    return HostSum(np.array(values), np.full(len(values), np.nan), weight, factor)


def swapped(op: str, mine: HostSum, theirs: HostSum) -> tuple[Any, Any]:
    """What both hosts have when they have swapped their sums."""
    one, other = exchange(op, mine), exchange(op, theirs, me=1)
    sent = [each.part(None) for each in (one, other)]
    for each, (about, values), source in ((one, sent[1], 1), (other, sent[0], 0)):
        each.at += 1
        hop = each.next
        assert hop is not None
        each.take(hop, CamePart(source, 1, None, about, values.copy()))
        assert each.next is None
        assert each.weights == [mine.weight, theirs.weight]
    return mine.total.tolist(), theirs.total.tolist()


@pytest.mark.parametrize(
    ("op", "mine", "theirs", "expected"),
    [
        (MEAN, (2.0, 2.0), (2.0, 2.0), [2.0, 5.0]),
        (MEAN, (3.0, 3.0), (1.0, 1.0), [1.5, 5.5]),
        (MEAN, (4.0, 1.0), (0.0, 0.0), [0.25, 1.5]),
        (MEAN, (0.0, 0.0), (2.0, 2.0), [3.0, 4.0]),
        (SUM, (2.0, 1.0), (3.0, 1.0), [4.0, 10.0]),
        (MAX, (2.0, 1.0), (3.0, 1.0), [3.0, 6.0]),
        (MAX, (0.0, 0.0), (3.0, 1.0), [3.0, 4.0]),
    ],
)
def test_both_hosts_have_the_result_whatever_their_weights_and_factors(
    op: str, mine: tuple[float, float], theirs: tuple[float, float], expected: list[float]
) -> None:
    assert swapped(op, apart([1.0, 6.0], *mine), apart([3.0, 4.0], *theirs)) == (expected, expected)


def test_what_contributes_nothing_may_be_anything() -> None:
    assert swapped(MEAN, apart([np.nan], 0.0, 0.0), apart([4.0], 2.0, 2.0)) == ([4.0], [4.0])


def test_equal_factors_are_left_out_of_the_sum_that_is_sent_on() -> None:
    one = exchange(MEAN, apart([0.1, 0.7], 0.3, 0.3), HALVES)
    one.at += 1
    other = exchange(MEAN, apart([0.2, 0.5], 0.3, 0.3), HALVES, me=1)
    about, values = other.part(FIRST)
    one.take(HALVES[1], CamePart(1, 1, FIRST, about, values))
    assert one.part(FIRST)[1].tolist() == [(0.1 + 0.2) / 2]
    assert one.part(SECOND)[1].tolist() == [0.7], "where it was given"


def test_a_part_that_was_received_to_its_place_is_not_copied() -> None:
    one = exchange(SUM, apart([1.0, 1.0], 1.0, 1.0), HALVES)
    about, _ = exchange(SUM, apart([2.0, 2.0], 1.0, 1.0), HALVES, me=1).part(SECOND)
    one.at = 3
    one.place(SECOND)[:] = 9.0
    nonsense = np.zeros(1)
    one.take(HALVES[3], CamePart(1, 1, SECOND, about, nonsense, is_in_place=True))
    assert one.place(SECOND).tolist() == [9.0]


def test_which_part_a_host_completes_and_when() -> None:
    assert plan_of(SWAP, None)[1:] == (2, None)
    assert plan_of(HALVES, Part(3, 4))[1:] == (2, FIRST)
    folded = (Hop(1, None, is_sent=True), Hop(1, None, is_sent=False, replaces=True))
    assert plan_of(folded, None)[1:] == (None, None)
    assert plan_of((), Part(3, 4))[1:] == (0, Part(3, 4))


def test_a_host_that_is_alone_has_its_own_mean() -> None:
    mine = apart([2.0, 4.0], 3.0, 3.0)
    Exchange(1, ABOUT, MEAN, mine, plan_of((), None), [3.0])
    assert mine.total.tolist() == [2.0, 4.0]


def test_what_is_told_with_a_part_has_its_size() -> None:
    about, _ = exchange(SUM, apart([1.0], 1.0, 1.0)).part(None)
    assert len(about) == about_bytes(2)
