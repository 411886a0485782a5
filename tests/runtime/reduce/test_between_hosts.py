"""Sums between hosts: the same bits for all, in whatever order parts come."""

from collections import deque
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.actions import MAX, SUM
from weft.core.errors import ConfigError, IllegalAction, UnexpectedMessage
from weft.core.names import Part
from weft.engines.real.hops import hops_between
from weft.runtime.reduce.between_hosts import About, BetweenHosts, EarlyPart, Key

LEADERS = [0, 3, 4, 8, 9, 11, 12]
KEY = (0, 5)


class Leaders:
    """The leaders of several hosts; what is sent waits in channels that keep their order."""

    def __init__(self, num_hosts: int, num_bytes: int = 100) -> None:
        self.channels: dict[tuple[int, int], deque[tuple[Key, EarlyPart]]] = {}
        self.leaders = LEADERS[:num_hosts]
        self.ends = [
            BetweenHosts(
                self.leaders,
                me,
                [num_bytes] * (KEY[1] + 1),
                hops_between,
                lambda to, *said, me=me: self._send(me, to, *said),
            )
            for me in range(num_hosts)
        ]

    def _send(self, me: int, to: int, key: Key, number: int, part: Part | None, about: bytes, values: Any) -> None:
        came = EarlyPart(self.leaders[me], number, part, about, values.copy())
        self.channels.setdefault((me, self.leaders.index(to)), deque()).append((key, came))

    def deliver(self, source: int, target: int) -> None:
        key, came = self.channels[source, target].popleft()
        self.ends[target].hear(key, came)
        came.values.fill(np.nan)  # it was only lent

    def waiting(self) -> list[tuple[int, int]]:
        return [pair for pair, notes in self.channels.items() if notes]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_hosts=st.integers(1, 7),
    op=st.sampled_from([SUM, MAX]),
    num_bytes=st.sampled_from([100, 10**8]),
)
def test_any_order_gives_all_hosts_the_same_bits_of_the_sum_and_of_the_weight(
    seed: int, num_hosts: int, op: str, num_bytes: int
) -> None:
    chance, rng = Random(seed), np.random.default_rng(seed)
    leaders = Leaders(num_hosts, num_bytes)
    for number in (1, 2, 3):
        given_ = [rng.normal(size=37) for _ in range(num_hosts)]
        weights = [chance.choice([0.0, 0.1, 2.0]) for _ in range(num_hosts)]
        totals, ended = [each.copy() for each in given_], dict[int, float]()
        todo = list(range(num_hosts))
        while len(ended) < num_hosts:
            me = chance.randrange(num_hosts)
            if me in todo and chance.random() < 0.5:
                todo.remove(me)
                leaders.ends[me].begin(KEY, number, About(10 * number, 77, 3), op, totals[me], weights[me])
            if waiting := leaders.waiting():
                leaders.deliver(*chance.choice(waiting))
            if me not in todo and me not in ended:
                weight = leaders.ends[me].advance(KEY)
                if weight is not None:
                    ended[me] = weight
        expected = np.max(given_, axis=0) if op == MAX else np.sum(given_, axis=0)
        assert np.allclose(totals[0], expected, rtol=1e-12, atol=1e-12)
        assert all(np.array_equal(total, totals[0]) for total in totals)
        assert set(ended.values()) == {sum(weights)}
    assert not leaders.waiting()


def test_a_part_that_is_awaited_is_used_where_it_lies_and_whom_a_leader_waits_for_is_known() -> None:
    leaders = Leaders(2)
    totals = [np.ones(3), np.full(3, 2.0)]
    for me in (0, 1):
        leaders.ends[me].begin(KEY, 1, About(0, 7, 0), SUM, totals[me], 1.0)
        assert leaders.ends[me].advance(KEY) is None
        assert leaders.ends[me].waits_for() == [LEADERS[1 - me]]
    leaders.deliver(0, 1)
    assert totals[1].tolist() == [3.0] * 3
    assert leaders.ends[1].waits_for() == []
    assert leaders.ends[1].advance(KEY) == 2.0


def meet(*abouts: About) -> None:
    """Two hosts bring these reductions to each other."""
    leaders = Leaders(2)
    for me, about in enumerate(abouts):
        leaders.ends[me].begin(KEY, 1, about, SUM, np.zeros(3), 1.0)
        leaders.ends[me].advance(KEY)
    leaders.deliver(0, 1)


def test_hosts_that_reduce_something_else_are_told_apart() -> None:
    with pytest.raises(IllegalAction) as raised:
        meet(About(4, 7, 0), About(5, 7, 0))
    assert str(raised.value) == "a reduction at clock 5 met another one of its bucket on worker 0, at clock 4."


def test_hosts_that_skipped_different_steps_are_told_apart() -> None:
    with pytest.raises(ConfigError) as raised:
        meet(About(5, 7, 4), About(5, 7, 3))
    assert str(raised.value) == (
        "worker 0 and this one, on different hosts, have not skipped the same steps, so their "
        "parameters would differ.\n"
        "  Skip a step on all workers or on none: a test on the reduced gradient is the same for all."
    )


@pytest.mark.parametrize(
    "came",
    [
        EarlyPart(1, 1, None, bytes(36), np.zeros(3)),  # no leader
        EarlyPart(3, 2, None, bytes(36), np.zeros(3)),  # too far ahead
        EarlyPart(3, 0, None, bytes(36), np.zeros(3)),  # over
        EarlyPart(3, 1, None, bytes(28), np.zeros(3)),  # too short
        EarlyPart(3, 1, Part(1, 7), bytes(36), np.zeros(3)),  # cut otherwise
    ],
)
def test_what_no_leader_sends_is_refused_before_it_is_kept(came: EarlyPart) -> None:
    leaders = Leaders(2)
    with pytest.raises(UnexpectedMessage, match=r"^worker \d sent a part of a sum of bucket 5 that worker 0 does not"):
        leaders.ends[0].hear(KEY, came)
    assert not leaders.ends[0]._early


def test_nothing_is_kept_twice() -> None:
    leaders = Leaders(2)
    came = EarlyPart(3, 1, None, bytes(36), np.zeros(3))
    leaders.ends[0].hear(KEY, came)
    with pytest.raises(UnexpectedMessage, match="does not await: of reduction 1, while 0 is the last one here"):
        leaders.ends[0].hear(KEY, came)
    assert len(leaders.ends[0]._early[KEY]) == 1
