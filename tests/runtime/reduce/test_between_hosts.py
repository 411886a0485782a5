"""Sums between hosts: the same bits for all, in whatever order parts come."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.network.sums import SumPost

from weft.core.actions import MAX, MEAN, SUM
from weft.core.errors import ConfigError, IllegalAction, UnexpectedMessage
from weft.core.names import Bucket, Part
from weft.cost.links import Link
from weft.engines.real import hops
from weft.engines.real.hops import plans_between
from weft.runtime.connections import LINKS
from weft.runtime.reduce.between_hosts import BetweenHosts
from weft.runtime.reduce.exchange import About, CamePart, HostSum
from weft.store.reduction import reduce_arrays

LEADERS = [0, 3, 4, 8, 9, 11, 12, 15, 17]
KEY = (0, 5)
NUM_ELEMENTS = 37


class Leaders:
    """The leaders of several hosts, which plan as if a bucket had `num_bytes`."""

    def __init__(self, num_hosts: int, num_bytes: int = 100, link: Link = LINKS["tls"]) -> None:
        self.leaders = LEADERS[:num_hosts]
        self.posts: dict[int, SumPost] = {}
        self.ends = []
        for me, rank in enumerate(self.leaders):
            post = SumPost(rank, self.posts)
            buckets = [Bucket(NUM_ELEMENTS, 8)] * (KEY[1] + 1)
            self.ends.append(
                BetweenHosts(
                    self.leaders, me, buckets, lambda me, num, real_bytes: plans_between(me, num, num_bytes, link), post
                )
            )
            post.hear_sums(self.ends[-1])

    def deliver(self, source: int, target: int) -> None:
        self.posts[self.leaders[target]].deliver(self.leaders[source])

    def waiting(self) -> list[tuple[int, int]]:
        index = self.leaders.index
        return [(index(source), index(rank)) for rank, post in self.posts.items() for source in post.waiting]


def brought(values: Any, weight: float = 1.0) -> HostSum:
    """A host's sum that lies where the total is to be."""
    return HostSum(values, values, weight, 1.0)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_hosts=st.integers(1, 9),
    op=st.sampled_from([MEAN, SUM, MAX]),
    num_bytes=st.sampled_from([100, 10**6, 10**7]),
    is_apart=st.booleans(),
    link=st.sampled_from([LINKS["tls"], Link(0.01, 1.25e8)]),
)
def test_any_order_gives_all_hosts_the_same_bits_of_the_result_and_of_the_weight(
    seed: int, num_hosts: int, op: str, num_bytes: int, is_apart: bool, link: Link
) -> None:
    chance, rng = Random(seed), np.random.default_rng(seed)
    leaders = Leaders(num_hosts, num_bytes, link)
    totals = [np.zeros(NUM_ELEMENTS) for _ in range(num_hosts)]
    contributions = [np.zeros(NUM_ELEMENTS) for _ in range(num_hosts)]
    for number in (1, 2, 3):
        given_ = [rng.normal(size=NUM_ELEMENTS) for _ in range(num_hosts)]
        weights = [chance.choice([0.0, 0.1, 2.0, 2.0]) for _ in range(num_hosts)]
        ended = dict[int, float]()
        todo = list(range(num_hosts))
        while len(ended) < num_hosts:
            me = chance.randrange(num_hosts)
            if me in todo and chance.random() < 0.5:
                todo.remove(me)
                leaders.posts[leaders.leaders[me]].take_back(KEY)
                values = contributions[me] if is_apart else totals[me]
                factor = (weights[me] if op == MEAN else 1.0) if weights[me] else 0.0
                values[:] = given_[me] if factor else np.nan
                mine = HostSum(values, totals[me], weights[me], factor)
                leaders.ends[me].begin(KEY, number, About(10 * number, 77, 3), op, mine)
            if waiting := leaders.waiting():
                leaders.deliver(*chance.choice(waiting))
            if me not in todo and me not in ended:
                weight = leaders.ends[me].ended(KEY)
                if weight is not None:
                    ended[me] = weight
                    contributions[me].fill(np.nan)
        if any(weights):
            counted = weights if op == MEAN else [float(bool(weight)) for weight in weights]
            assert np.allclose(totals[0], reduce_arrays(given_, counted, op), rtol=1e-12, atol=1e-12)
            assert all(np.array_equal(total, totals[0]) for total in totals)
        assert set(ended.values()) == {sum(weights)}
    assert not leaders.waiting()


def test_equal_weights_are_left_out_so_that_two_hosts_have_the_bits_of_a_plain_mean() -> None:
    rng = np.random.default_rng(1)
    leaders, given_ = Leaders(2, 10**7), [rng.normal(size=NUM_ELEMENTS) for _ in range(2)]
    totals = [np.zeros(NUM_ELEMENTS) for _ in range(2)]
    for me in (0, 1):
        leaders.ends[me].begin(KEY, 1, About(0, 7, 0), MEAN, HostSum(given_[me], totals[me], 0.3, 0.3))
    while waiting := leaders.waiting():
        leaders.deliver(*waiting[0])
    assert totals[0].tolist() == totals[1].tolist() == ((given_[0] + given_[1]) / 2).tolist()


def test_what_comes_before_its_turn_is_received_to_memory_of_its_own_and_what_is_complete_to_its_place() -> None:
    leaders = Leaders(2, hops.PIECE_BYTES)
    totals = [np.zeros(NUM_ELEMENTS), np.ones(NUM_ELEMENTS)]
    for me in (1, 0):
        leaders.ends[me].begin(KEY, 1, About(0, 7, 0), SUM, brought(totals[me]))
    (first, second), half = leaders.ends, NUM_ELEMENTS // 2
    early = first.room(KEY, (3, 2, Part(0, 2)))
    assert early is not None
    assert not np.shares_memory(early, totals[0])
    assert first.room(KEY, (3, 1, Part(0, 2))) is None, "it is added at once"
    leaders.deliver(0, 1)
    place = first.room(KEY, (3, 1, Part(1, 2)))
    assert place is not None
    assert not np.shares_memory(place, totals[0]), "its turn is after the other half"
    leaders.deliver(1, 0)
    place = first.room(KEY, (3, 1, Part(1, 2)))
    assert place is not None
    assert np.shares_memory(place, totals[0])
    assert len(place) == NUM_ELEMENTS - half
    assert second.ended(KEY) is None


def test_a_part_that_is_awaited_is_used_where_it_lies_and_whom_a_leader_waits_for_is_known() -> None:
    leaders = Leaders(2)
    totals = [np.ones(NUM_ELEMENTS), np.full(NUM_ELEMENTS, 2.0)]
    for me in (0, 1):
        leaders.ends[me].begin(KEY, 1, About(0, 7, 0), SUM, brought(totals[me]))
        assert leaders.ends[me].ended(KEY) is None
        assert leaders.ends[me].waits_for() == [LEADERS[1 - me]]
    leaders.deliver(0, 1)
    assert totals[1].tolist() == [3.0] * NUM_ELEMENTS
    assert leaders.ends[1].waits_for() == []
    assert leaders.ends[1].ended(KEY) == 2.0


def meet(*abouts: About) -> None:
    """Two hosts bring these reductions to each other."""
    leaders = Leaders(2)
    for me, about in enumerate(abouts):
        leaders.ends[me].begin(KEY, 1, about, SUM, brought(np.zeros(NUM_ELEMENTS)))
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
        CamePart(1, 1, None, bytes(44), np.zeros(NUM_ELEMENTS)),  # no leader
        CamePart(3, 2, None, bytes(44), np.zeros(NUM_ELEMENTS)),  # too far ahead
        CamePart(3, 0, None, bytes(44), np.zeros(NUM_ELEMENTS)),  # over
        CamePart(3, 1, None, bytes(36), np.zeros(NUM_ELEMENTS)),  # too short
        CamePart(3, 1, Part(1, 7), bytes(44), np.zeros(NUM_ELEMENTS)),  # cut otherwise
    ],
)
def test_what_no_leader_sends_is_refused_before_it_is_kept(came: CamePart) -> None:
    leaders = Leaders(2)
    with pytest.raises(UnexpectedMessage, match=r"^worker \d sent a part of a sum of bucket 5 that worker 0 does not"):
        leaders.ends[0].hear(KEY, came)
    assert not leaders.ends[0]._early


def test_nothing_is_kept_twice() -> None:
    leaders = Leaders(2)
    came = CamePart(3, 1, None, bytes(44), np.zeros(NUM_ELEMENTS))
    leaders.ends[0].hear(KEY, came)
    with pytest.raises(UnexpectedMessage, match="does not await: of reduction 1, while 0 is the last one here"):
        leaders.ends[0].hear(KEY, came)
    assert len(leaders.ends[0]._early[KEY]) == 1
