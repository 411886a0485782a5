"""A swarm: values are drawn to where they were best, for this worker and for all."""

from typing import Any

import pytest
from support.peers.newcomers import given, handed, newcomer

from weft.core.actions import Combine, Compute, Note, Send
from weft.core.events import EpochFinished, Received, Started, StepFinished
from weft.core.names import Bucket, Buffer, Part
from weft.strategies import Population
from weft.testing.peers import IN1, is_plain, peer_of, received, tell

BUCKETS = (Bucket(4), Bucket(2, 8, trainable=False, tuned=True))
NOW, PERSONAL, LEADER, VELOCITY = (
    Buffer(slot, 1) for slot in ("params", "population.personal", "population.leader", "population.velocity")
)


def particle(me: int = 0, num_workers: int = 2) -> Any:
    peer = peer_of(Population(method="pso", inertia=0.5, attraction=2.0), me, num_workers, BUCKETS)
    tell(peer, Started(0), StepFinished(0, 1.0, None))
    return peer


def told(source: int, best: float, epoch: int = 0) -> Received:
    return received(source, "score", epoch, data={"badness": best, "best": best})


def check_move(actions: list[Any], leader: Buffer) -> None:
    """v = inertia v + a (personal - x) + b (leader - x) for each value, then x += v."""
    *moves, last = actions
    assert last == Combine(NOW, 1.0, VELOCITY)
    assert len(moves) == 6
    for which in range(2):
        part = Part(which, 2)
        to_own, to_leader, back = moves[3 * which : 3 * which + 3]
        assert to_own == Combine(VELOCITY._replace(part=part), 0.5, PERSONAL._replace(part=part), to_own.scale)
        assert to_leader == Combine(VELOCITY._replace(part=part), 1.0, leader._replace(part=part), to_leader.scale)
        assert back == Combine(VELOCITY._replace(part=part), 1.0, NOW._replace(part=part), back.scale)
        assert 0.0 <= to_own.scale < 2.0
        assert 0.0 <= to_leader.scale < 2.0
        assert back.scale == -to_own.scale - to_leader.scale


def test_the_first_position_is_the_best_so_far() -> None:
    remember = Combine(PERSONAL, 0.0, NOW)
    assert tell(peer_of(Population(method="pso"), 0, 2, BUCKETS), Started(0)) == [remember, Compute(0)]
    *scattered, kept, compute = tell(peer_of(Population(method="pso"), 1, 2, BUCKETS), Started(0))
    assert [action.into for action in scattered] == [NOW._replace(part=Part(which, 2)) for which in range(2)]
    assert [kept, compute] == [remember, Compute(0)]


def test_a_better_score_than_ever_makes_a_better_position() -> None:
    peer = particle()
    first, score = tell(peer, EpochFinished(0, {"loss": 2.0}))
    assert first == Combine(PERSONAL, 0.0, NOW)
    assert score == Send(1, "score", 0, 0, data={"badness": 2.0, "best": 2.0})
    tell(peer, told(1, 9.0))
    assert tell(peer, EpochFinished(1, {"loss": 3.0})) == [
        Send(1, "score", 1, 0, data={"badness": 3.0, "best": 2.0}),
    ]
    tell(peer, told(1, 9.0, epoch=1))
    assert tell(peer, EpochFinished(2, {"loss": 1.0}))[0] == Combine(PERSONAL, 0.0, NOW)


def test_the_leader_follows_its_own_best() -> None:
    peer = particle()
    tell(peer, EpochFinished(0, {"loss": 2.0}))
    *move, compute = tell(peer, told(1, 2.0))
    check_move(move, PERSONAL)
    assert compute == Compute(1)


def test_the_others_ask_the_leader_and_follow_where_it_was_best() -> None:
    peer = particle()
    tell(peer, EpochFinished(0, {"loss": 2.0}))
    assert tell(peer, told(1, 1.0)) == [Send(1, "ask", 0, 0)]
    arrived, *move, note, compute = tell(peer, received(1, "position", 0, bucket=1))
    assert arrived == Combine(LEADER, 0.0, IN1)
    check_move(move, LEADER)
    assert [note, compute] == [Note("followed", 1), Compute(1)]
    assert is_plain(peer)


def test_a_leader_answers_with_where_it_was_best() -> None:
    assert tell(particle(), Received(1, "ask", 4, 0, None, 1.0, None)) == [Send(1, "position", 4, 1, PERSONAL)]


@pytest.mark.parametrize(
    ("bests", "leader"), [({0: 3.0, 1: 2.0, 2: 2.0}, 1), ({0: 2.0, 1: 2.0, 2: 5.0}, None), ({0: 2.0}, None)]
)
def test_the_leader_has_seen_the_best_score_of_all(bests: dict[int, float], leader: int | None) -> None:
    peer = particle(num_workers=3)
    peer.best = bests[0]
    assert peer.choose({worker: {"badness": 9.0, "best": best} for worker, best in bests.items()}) == leader


def test_a_newcomer_sets_out_near_the_values_that_it_took_over() -> None:
    peer = newcomer(Population(method="pso", spread=2.0), 0, 0, 1, num_workers=2, buckets=BUCKETS)
    tell(peer, given(1, 6), given(1, 6, 1))
    *scattered, kept, compute = tell(peer, handed(1, step=6, closed=1))
    assert [action.into for action in scattered] == [NOW._replace(part=Part(which, 2)) for which in range(2)]
    assert all(0.5 <= action.keep <= 2.0 for action in scattered)
    assert [kept, compute] == [Combine(PERSONAL, 0.0, NOW), Compute(6)]
    assert peer.best == float("inf")
