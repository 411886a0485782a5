"""Breeding: who gives way, whom it copies, and what it changes then."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from peers import IN0, IN1, P0, P1, is_plain, peer_of, received, tell

from weft.core.actions import Combine, Compute, Note, Send
from weft.core.events import EpochFinished, Received, Started, StepFinished
from weft.core.names import Bucket, Buffer, Part
from weft.strategies import Population

BUCKETS = (Bucket(4), Bucket(2, 8, trainable=False, tuned=True))
VALUES = [Buffer("params", 1, Part(which, 2)) for which in range(2)]
EVEN0, EVEN1, ODD0, ODD1 = (Buffer(f"population.{which}", bucket) for which in ("even", "odd") for bucket in (0, 1))


def breeder(me: int, num_workers: int, **options: Any) -> Any:
    peer = peer_of(Population(**options), me, num_workers, BUCKETS)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    return peer


def told(badness: Mapping[int, float], born: Mapping[int, float] | None = None) -> dict[int, dict[str, float]]:
    return {worker: {"badness": b, "born": (born or {}).get(worker, -1.0)} for worker, b in badness.items()}


def chosen(me: int, badness: Mapping[int, float], times: int = 100, **options: Any) -> set[int | None]:
    """Whomever a worker chooses, drawing again and again."""
    peer = breeder(me, len(badness), **options)
    peer.clock = 0
    return {peer.choose(told(badness)) for _ in range(times)}


def test_every_member_but_worker_0_begins_with_scattered_values() -> None:
    assert tell(peer_of(Population(), 0, 2, BUCKETS), Started(0)) == [Compute(0)]
    first, second, compute = tell(peer_of(Population(spread=2.0), 1, 2, BUCKETS), Started(0))
    assert [first.into, second.into, compute] == [*VALUES, Compute(0)]
    assert all(0.5 <= action.keep <= 2.0 for action in (first, second))
    assert first.keep != second.keep


SCORES = {0: 5.0, 1: 1.0, 2: 4.0, 3: 2.0, 4: 3.0, 5: 6.0, 6: 0.5, 7: 7.0, 8: 8.0, 9: 9.0}


def test_the_worst_fifth_copies_one_of_the_best_fifth() -> None:
    for me in (8, 9):
        assert chosen(me, SCORES) == {1, 6}
    for me in range(8):
        assert chosen(me, SCORES) == {None}


@pytest.mark.parametrize(
    ("num_members", "fraction", "num_leaving"),
    [(1, 0.2, 0), (2, 0.2, 1), (3, 0.5, 1), (4, 0.2, 1), (10, 0.2, 2), (10, 0.5, 5), (11, 0.5, 5), (16, 0.2, 3)],
)
def test_at_least_one_gives_way_and_at_most_half(num_members: int, fraction: float, num_leaving: int) -> None:
    assert breeder(0, 2, fraction=fraction).num_leaving(num_members) == num_leaving


def test_who_is_alone_or_as_good_as_the_best_copies_nobody() -> None:
    assert chosen(0, {0: 1.0, 1: 1.0}) == chosen(1, {0: 1.0, 1: 1.0}) == {None}
    assert chosen(1, {0: float("inf"), 1: float("inf")}) == {None}
    peer = breeder(0, 2)
    assert peer.choose(told({0: 9.0})) is None


def test_pbt_copies_all_at_once_when_all_has_come_and_perturbs_every_value() -> None:
    peer = breeder(1, 2, perturb=0.25)
    asks = tell(peer, EpochFinished(0, {"loss": 2.0}), received(0, "score", 0, data={"badness": 1.0}))
    assert asks == [Send(0, "ask", 0, 0)]
    assert tell(peer, received(0, "copy", 0)) == [Combine(EVEN0, 0.0, IN0)]
    into, copy0, copy1, first, second, note, compute = tell(peer, received(0, "copy", 0, bucket=1))
    assert [into, copy0, copy1] == [Combine(EVEN1, 0.0, IN1), Combine(P0, 0.0, EVEN0), Combine(P1, 0.0, EVEN1)]
    assert [first.into, second.into] == VALUES
    assert {first.keep, second.keep} <= {0.75, 1.25}
    assert [note, compute] == [Note("copied", 0), Compute(1)]
    assert is_plain(peer)


@pytest.mark.parametrize("method", ["pbt", "evolution"])
@pytest.mark.parametrize("period", [1, 3])
def test_who_is_asked_sends_the_parameters_and_values_that_got_the_score(period: int, method: str) -> None:
    """Even when it has told that of the next contest meanwhile."""
    peer = breeder(0, 3, method=method, period=period)
    first, second = period - 1, 2 * period - 1
    for epoch, slots in ((first, (ODD0, ODD1)), (second, (EVEN0, EVEN1))):
        kept = tell(peer, EpochFinished(epoch, {"loss": 1.0}))[:2]
        assert kept == [Combine(slot, 0.0, mine) for slot, mine in zip(slots, (P0, P1), strict=True)]
        for other in (1, 2) if epoch == first else ():
            tell(peer, received(other, "score", epoch, data={"badness": 5.0, "born": 9.0}))
    for epoch, slots in ((first, (ODD0, ODD1)), (second, (EVEN0, EVEN1))):
        ask = Received(1, "ask", epoch, 0, None, 1.0, None)
        assert tell(peer, ask) == [Send(1, "copy", epoch, 0, slots[0]), Send(1, "copy", epoch, 1, slots[1])]


def test_evolution_tells_ages_and_lets_the_oldest_go_however_good_they_are() -> None:
    peer = breeder(0, 4, method="evolution", sample=3)
    assert tell(peer, EpochFinished(0, {"loss": 2.0}))[-1].data == {"badness": 2.0, "born": -1.0}
    badness = {0: 2.0, 1: 1.0, 2: 5.0, 3: 6.0}
    assert peer.choose(told(badness, {0: 0.0, 1: 4.0, 2: 3.0, 3: 1.0})) == 1
    assert peer.choose(told(badness, {0: 3.0, 1: 4.0, 2: 0.0, 3: 1.0})) is None


def test_evolution_lets_the_worst_of_the_oldest_go_first() -> None:
    assert chosen(2, {0: 1.0, 1: 2.0, 2: 3.0}, method="evolution", sample=2) == {0}
    assert chosen(1, {0: 1.0, 1: 2.0, 2: 3.0}, method="evolution", sample=2) == {None}


def test_evolution_copies_the_best_of_a_random_sample() -> None:
    peer = breeder(3, 4, method="evolution", sample=2)
    peer.clock = 0
    drawn = Counter(peer.choose(told({0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0})) for _ in range(300))
    assert set(drawn) == {0, 1}
    assert 170 < drawn[0] < 230, "two of the three pairs have the best in them"


def test_an_old_one_that_is_better_than_the_sample_lives_on_as_a_newborn() -> None:
    peer = breeder(0, 2, method="evolution")
    peer.clock = 7
    assert peer.choose(told({0: 1.0, 1: 2.0}, {0: -1.0, 1: 3.0})) is None
    assert peer.born == 7.0
    assert peer.enter(8)[1] == {"born": 7.0}


def test_evolution_perturbs_one_value() -> None:
    peer = breeder(1, 2, method="evolution", perturb=0.25)
    changed = [peer.change() for _ in range(50)]
    assert all(len(actions) == 1 and actions[0].keep in (0.75, 1.25) for actions in changed)
    assert {actions[0].into for actions in changed} == set(VALUES)
