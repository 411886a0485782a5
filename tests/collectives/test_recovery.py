"""Lowered reductions when members change: they end for all survivors or for none, whenever somebody is lost."""

from random import Random
from typing import Any

import numpy as np
import pytest
from support.simulated.reducers import ReduceOnce
from support.simulated.survivors import Crew

from weft.collectives import Flat, Lowered, tree
from weft.collectives.recovery import kinds_of
from weft.config.registry import COLLECTIVES
from weft.core.actions import Combine, Compute, Send, check_send
from weft.core.events import MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import Bucket, Buffer, Carries
from weft.strategies import StaleSync
from weft.testing.peers import IN0, P0, TWO, is_plain, peer_of, received, tell

TREE = Lowered(ReduceOnce(), "tree", Flat(tree))
TOLD, HANDED = kinds_of("tree")
FIRST, SECOND = (Buffer(f"tree.sum.{i}", 0) for i in range(2))
WITHOUT_TWO = MembersChanged(1, (0, 1), "lost worker 2")

every_collective = pytest.mark.parametrize("collective", COLLECTIVES)


def told(source: int, ended: str) -> Received:
    return Received(source, TOLD, 1, 0, None, 1.0, {"ended": ended})


def handed(source: int, weight: float = 9.0, clock: int = 0) -> Received:
    return Received(source, HANDED, clock, 0, IN0, weight, {"kind": "all"})


def waiting(me: int) -> Any:
    """A leaf of a tree of three: it has given its contribution and waits for the result."""
    peer = peer_of(TREE, me=me)
    tell(peer, Started(0), StepFinished(0, 2.0, None))
    return peer


def ended(me: int) -> Any:
    """Another one, which has got the result."""
    peer = waiting(me)
    tell(peer, received(0, "tree.all", weight=9.0))
    return peer


def test_a_worker_tells_the_others_what_has_ended_and_waits_for_their_word() -> None:
    peer = waiting(1)
    assert tell(peer, WITHOUT_TWO) == [Send(0, TOLD, 1, 0, data={"ended": "0"})]
    assert peer.waiting_for() == "worker 0 to say which tree reductions it has ended"
    done = ended(1)
    assert tell(done, WITHOUT_TWO) == [Send(0, TOLD, 1, 0, data={"ended": "1"})]


def test_what_nobody_has_ended_begins_again_with_those_that_are_left() -> None:
    peer = waiting(1)
    tell(peer, WITHOUT_TWO)
    assert tell(peer, told(0, "0")) == [Combine(FIRST, 0.0, P0, 2.0), Send(0, "tree.all", 0, 0, FIRST, 2.0)]
    assert peer.waiting_for() == "worker 0 in the tree reduction of 'all' (step 0, bucket 0)"


def test_what_another_has_ended_is_handed_on_and_counts_as_asked_for() -> None:
    peer = waiting(1)
    tell(peer, WITHOUT_TWO)
    assert tell(peer, told(0, "1")) == []
    assert peer.waiting_for() == "worker 0 to hand on the tree reduction of bucket 0"
    assert tell(peer, handed(0)) == [Combine(FIRST, 0.0, IN0), Combine(P0, 0.0, FIRST, 1 / 9), Compute(1)]


def test_a_sum_that_comes_before_the_last_word_waits_for_it() -> None:
    peer = peer_of(TREE, me=2, num_workers=4)
    tell(peer, Started(0), StepFinished(0, 2.0, None), MembersChanged(1, (0, 1, 2), "lost worker 3"))
    tell(peer, told(0, "1"))
    assert tell(peer, handed(0)) == [Combine(FIRST, 0.0, IN0)]
    assert tell(peer, told(1, "0")) == [Combine(P0, 0.0, FIRST, 1 / 9), Compute(1)]


def test_the_lowest_of_those_that_are_ahead_hands_its_sum_to_those_that_are_behind() -> None:
    def survivor(me: int) -> list[object]:
        peer = ended(me) if me else peer_of(TREE, num_workers=5)
        if not me:
            tell(peer, Started(0), StepFinished(0, 2.0, None))
        tell(peer, MembersChanged(1, (0, 1, 2, 3), "lost worker 4"))
        words = {0: "0", 1: "1", 2: "1", 3: "0"}
        return [tell(peer, told(other, word)) for other, word in words.items() if other != me][-1]

    message: dict[str, Any] = {"clock": 0, "bucket": 0, "body": FIRST, "weight": 9.0, "data": {"kind": "all"}}
    assert survivor(1) == [Send(0, HANDED, **message), Send(3, HANDED, **message)]
    assert survivor(2) == []
    assert survivor(0) == []


def test_the_last_sum_stays_whole_while_the_next_is_made_elsewhere() -> None:
    peer = ended(1)
    assert tell(peer, StepFinished(1, 2.0, None))[0] == Combine(SECOND, 0.0, P0, 2.0)
    tell(peer, WITHOUT_TWO)
    assert tell(peer, told(0, "0"))[0] == Send(0, HANDED, 0, 0, FIRST, 9.0, {"kind": "all"})


def test_a_reduction_that_is_no_longer_asked_for_does_not_stand_in_for_the_next() -> None:
    peer = waiting(1)
    tell(peer, WITHOUT_TWO)
    peer._put_off.clear()
    tell(peer, told(0, "1"), handed(0))
    assert tell(peer, StepFinished(1, 2.0, None))[0] == Combine(SECOND, 0.0, P0, 2.0)


def test_a_sum_of_no_weight_leaves_the_own_values() -> None:
    peer = waiting(1)
    tell(peer, WITHOUT_TWO, told(0, "1"))
    assert tell(peer, handed(0, weight=0.0)) == [Combine(FIRST, 0.0, IN0), Compute(1)]


def test_another_change_begins_anew() -> None:
    peer = peer_of(TREE, me=2, num_workers=4)
    tell(peer, Started(0), StepFinished(0, 2.0, None))
    tell(peer, MembersChanged(1, (0, 1, 2), "lost worker 3"), told(0, "1"), told(1, "0"))
    assert tell(peer, MembersChanged(2, (1, 2), "lost worker 0")) == [Send(1, TOLD, 2, 0, data={"ended": "0"})]
    assert tell(peer, told(1, "0")) == [Combine(FIRST, 0.0, P0, 2.0), Send(1, "tree.all", 0, 0, FIRST, 2.0)]


def test_the_last_worker_goes_on_at_once() -> None:
    peer = waiting(1)
    assert tell(peer, MembersChanged(1, (1,), "lost workers")) == [Combine(FIRST, 0.0, P0, 2.0), Compute(1)]


def test_what_a_broken_channel_returns_is_sent_again_and_what_an_older_view_returns_is_not() -> None:
    def comes_back(view: int) -> Returned:
        return Returned(0, "tree.all", 0, 0, IN0, 2.0, None, view)

    peer = waiting(1)
    assert tell(peer, comes_back(0)) == [Send(0, "tree.all", 0, 0, IN0, 2.0)]
    tell(peer, WITHOUT_TWO)
    assert tell(peer, comes_back(0)) == []
    word = Returned(0, TOLD, 1, 0, None, 1.0, {"ended": "0"}, 1)
    assert tell(peer, word) == [Send(0, TOLD, 1, 0, data={"ended": "0"})]


def test_servers_take_no_part_and_the_inner_strategys_messages_are_its_own_to_send_again() -> None:
    recipe = Lowered(StaleSync(), "tree", Flat(tree))
    server, worker = (peer_of(recipe, me=me, num_workers=2) for me in (2, 0))
    assert tell(server, MembersChanged(1, (0, 2), "lost worker 1")) == []
    push = Returned(2, "push", 0, 0, IN0, 1.0, None, 0)
    assert tell(worker, push) == [Send(2, "push", 0, 0, IN0, 1.0)]


def test_buckets_are_settled_one_by_one() -> None:
    peer = peer_of(TREE, me=1, buckets=TWO)
    tell(peer, Started(0), StepFinished(0, 2.0, None), received(0, "tree.all", bucket=1, weight=9.0))
    assert tell(peer, WITHOUT_TWO) == [Send(0, TOLD, 1, 0, data={"ended": "4"})]
    assert tell(peer, told(0, "1")) == [
        Send(0, HANDED, 0, 1, Buffer("tree.sum.0", 1), 9.0, {"kind": "all"}),
    ]
    assert tell(peer, handed(0)) == [Combine(FIRST, 0.0, IN0), Combine(P0, 0.0, FIRST, 1 / 9), Compute(1)]


def test_a_word_has_room_for_thousands_of_buckets_and_counts_beyond_four() -> None:
    peer = peer_of(TREE, me=1, num_workers=2, buckets=[Bucket(1)] * 8000)
    peer.recovery.num_ended[:] = [7] * 8000
    (word,) = tell(peer, MembersChanged(1, (0, 1), "moved server 0"))
    check_send(word, TREE.kinds(), 2)
    peer.recovery.last[7999] = "all", 6, 1.0
    answer = tell(peer, told(0, f"{int(word.data['ended'], 16) - (1 << 2 * 7999):x}"))
    assert answer == [Send(0, HANDED, 6, 7999, Buffer("tree.sum.0", 7999), 1.0, {"kind": "all"})]


def test_its_kinds_are_declared_and_its_state_is_plain() -> None:
    assert {TOLD: Carries.NOTHING, HANDED: Carries.EXACT}.items() <= TREE.kinds().items()
    peer = waiting(1)
    tell(peer, WITHOUT_TWO)
    assert is_plain(peer)
    assert peer.snapshot()["tree"]["recovery"] == {
        "num_ended": [0],
        "last": {},
        "words": {"1": 0},
        "untold": [0],
        "owed": {},
        "unclaimed": [],
    }


@every_collective
@pytest.mark.parametrize("num_buckets", [1, 2])
@pytest.mark.parametrize("num_workers", [2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_whenever_a_worker_is_lost_all_others_get_the_same(collective: str, num_workers: int, num_buckets: int) -> None:
    num_moves = Crew(collective, num_workers, num_buckets).run()
    for lost_after in range(num_moves + 1):
        crew = Crew(collective, num_workers, num_buckets)
        crew.run(lost_after)
        crew.lose(lost_after % num_workers)
        crew.run()
        assert crew.disagreements() == []


@every_collective
@pytest.mark.parametrize("seed", range(20))
def test_losses_upon_losses_and_broken_channels_do_not_part_the_survivors(collective: str, seed: int) -> None:
    rng = Random(seed)
    crew = Crew(collective, rng.randint(3, 6), rng.randint(1, 2), num_steps=3, seed=seed)
    while len(crew.alive) > 1 and crew.run(rng.choice((1, 3, 10, 30))):
        channels = [ends for ends, messages in sorted(crew.channels.items()) if messages and ends[0] in crew.alive]
        if channels and rng.random() < 0.5:
            crew.break_channel(*rng.choice(channels))
        else:
            crew.lose(rng.choice(crew.alive))
    crew.run()
    assert crew.disagreements() == []


def test_a_result_that_only_some_have_is_the_old_groups_and_one_that_nobody_has_the_new_groups() -> None:
    def outcome(num_moves: int) -> Any:
        crew = Crew("tree", 3, num_steps=1)
        crew.run(num_moves)
        crew.lose(2)
        crew.run()
        assert crew.disagreements() == []
        return [np.allclose(crew.results[0][0, 0], crew.mean(members, 0, 0)) for members in crew.views]

    assert outcome(0) == [False, True]
    assert outcome(Crew("tree", 3, num_steps=1).run()) == [True, False]


def test_the_network_of_these_tests_keeps_messages_to_their_view() -> None:
    crew = Crew("ring", 3, num_buckets=2, num_steps=1)
    for worker in (0, 1, 2):
        crew.compute(worker)
    crew.lose(2)
    crew.change(0)
    assert [message.view for message in crew.channels[0, 1]] == [1]
    assert crew.peers[0].recovery.untold == {1}
    assert (crew.deliver, 0, 1) not in crew.moves()
    assert (crew.deliver, 1, 2) not in crew.moves()
