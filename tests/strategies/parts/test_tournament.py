"""Tournaments: scores go around, and who wants something asks for it; whatever goes wrong on the way."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from support.peers.newcomers import given, handed, joined

from weft.core.actions import Apply, Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import EpochFinished, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import Bucket, Buffer, NodeId, Roles
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.parts.tournament import Told, TournamentPeer
from weft.testing.peers import G0, IN0, IN1, P0, P1, is_plain, received, refusal, tell

BUCKETS = (Bucket(4), Bucket(2))
INFINITE = float("inf")


class Copier(TournamentPeer):
    """Whoever is not the best wants both buckets of the one that is a place better."""

    def choose(self, told: Mapping[NodeId, Told]) -> NodeId | None:
        ranked = sorted(told, key=lambda worker: (told[worker]["badness"], worker))
        place = ranked.index(self.me)
        return ranked[place - 1] if place else None

    def go_on_alone(self) -> Actions:
        return [Note("best", 1.0)]

    def wanted(self) -> set[int]:
        return {0, 1}

    def answer(self, to: NodeId, clock: int) -> Actions:
        return [Send(to, "copy", clock, 0, P0), Send(to, "copy", clock, 1, P1)]

    def take(self, bucket: int, body: Buffer) -> Actions:
        return [Combine(Buffer("arrived", bucket), 0.0, body)]

    def make_use(self, source: NodeId) -> Actions:
        return [Note("used", source)]


def tournamentant(me: int = 0, num_workers: int = 3, period: int = 1, score: str = "loss") -> Any:
    """A worker that has taken 4 steps with losses of 0 to 3."""
    peer = Copier(period, score, me, World(Roles(num_workers), BUCKETS), Random(0))
    tell(peer, Started(0), *(StepFinished(step, 1.0, float(step)) for step in range(4)))
    return peer


def told(source: int, badness: float, epoch: int = 0) -> Received:
    return received(source, "score", epoch, data={"badness": badness})


def asked(source: int, epoch: int = 0) -> Received:
    return Received(source, "ask", epoch, 0, None, 1.0, None)


def scores(badness: float, epoch: int = 0, others: tuple[int, ...] = (1, 2)) -> list[Send]:
    return [Send(to, "score", epoch, 0, data={"badness": badness}) for to in others]


def copies(to: int, epoch: int = 0) -> list[Send]:
    return [Send(to, "copy", epoch, 0, P0), Send(to, "copy", epoch, 1, P1)]


def without(*lost: int, view: int = 1, num_workers: int = 3) -> MembersChanged:
    members = tuple(worker for worker in range(num_workers) if worker not in lost)
    return MembersChanged(view, members, "lost")


def waits_for_copy() -> Any:
    """Worker 0, third of three, which has asked worker 2."""
    peer = tournamentant()
    asks = tell(peer, EpochFinished(0, {}), told(1, 0.5), told(2, 1.0))
    assert asks == [Send(2, "ask", 0, 0)]
    return peer


def test_between_tournaments_a_worker_trains_alone() -> None:
    peer = tournamentant()
    assert tell(peer, StepFinished(4, 1.0, None)) == [Apply(G0, P0), Apply(Buffer("gradient", 1), P1), Compute(5)]
    assert tell(peer, StepFinished(5, 0.0, None)) == [Compute(6)]
    assert not peer.holds_user


def test_the_score_is_told_to_everybody_and_the_user_waits_for_theirs() -> None:
    peer = tournamentant()
    assert tell(peer, EpochFinished(0, {})) == scores(1.5)
    assert peer.holds_user
    assert peer.waiting_for() == "the score of epoch 0 from worker 1, 2"


def test_a_tournament_comes_only_after_so_many_epochs_with_the_score_of_the_last() -> None:
    peer = tournamentant(period=2)
    assert tell(peer, EpochFinished(0, {})) == []
    assert not peer.holds_user
    assert tell(peer, StepFinished(4, 1.0, 7.0), EpochFinished(1, {})) == scores(7.0, epoch=1)


def test_a_score_that_the_script_does_not_report_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^the population goes by 'acuracy', which the script does not report"):
        tell(tournamentant(score="acuracy"), EpochFinished(0, {"accuracy": 0.9}))


def test_who_wants_nothing_goes_on_when_all_have_told() -> None:
    peer = tournamentant()
    assert tell(peer, EpochFinished(0, {}), told(1, 2.0)) == []
    assert tell(peer, told(2, 3.0)) == [Note("best", 1.0), Compute(4)]
    assert not peer.holds_user


def test_scores_may_come_before_the_own_epoch_is_finished() -> None:
    peer = tournamentant()
    assert tell(peer, told(1, 2.0), told(2, 3.0)) == []
    assert tell(peer, EpochFinished(0, {})) == [*scores(1.5), Note("best", 1.0), Compute(4)]


def test_who_wants_something_asks_for_it_and_goes_on_when_all_of_it_has_come() -> None:
    peer = waits_for_copy()
    assert peer.holds_user
    assert peer.waiting_for() == "what it asked of worker 2 after epoch 0"
    assert tell(peer, received(2, "copy", 0, bucket=1)) == [Combine(Buffer("arrived", 1), 0.0, IN1)]
    assert peer.holds_user
    assert tell(peer, received(2, "copy", 0)) == [Combine(Buffer("arrived", 0), 0.0, IN0), Note("used", 2), Compute(4)]
    assert not peer.holds_user


def test_who_is_asked_answers_at_once_whatever_it_awaits_itself() -> None:
    peer = tournamentant()
    assert tell(peer, EpochFinished(0, {}), asked(2)) == copies(2)
    assert tell(waits_for_copy(), asked(1)) == copies(1)


def test_what_nobody_awaits_is_refused() -> None:
    assert "worker 0 received 'copy'" in refusal(tournamentant(), received(1, "copy", 0))
    peer = waits_for_copy()
    tell(peer, received(2, "copy", 0))
    for strange in (received(2, "copy", 0), received(1, "copy", 0, bucket=1), received(2, "copy", 1, bucket=1)):
        assert "does not expect now" in refusal(peer, strange)


def test_a_score_that_comes_after_its_tournament_is_ignored() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), told(1, 2.0), told(2, 2.0))
    assert tell(peer, told(2, 2.0)) == []
    assert peer.snapshot()["told"] == {}


# When things go wrong (decision 0017).


def test_nobody_waits_for_the_score_of_one_that_has_left() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), told(1, 2.0))
    assert tell(peer, without(2)) == [Note("best", 1.0), Compute(4)]


def test_who_has_left_is_out_of_the_tournament_even_if_it_had_told() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), told(2, 0.5), without(2))
    assert tell(peer, told(1, 2.0)) == [Note("best", 1.0), Compute(4)]


def test_who_asked_one_that_has_left_chooses_again() -> None:
    peer = waits_for_copy()
    tell(peer, received(2, "copy", 0))
    assert tell(peer, without(2)) == [Send(1, "ask", 0, 0)]
    assert peer.snapshot()["missing"] == [0, 1], "what had come of the other is forgotten"
    assert tell(peer, without(1, 2, view=2)) == [Note("best", 1.0), Compute(4)]


def test_who_asked_one_that_stays_asks_again_because_nothing_outlives_a_view() -> None:
    peer = waits_for_copy()
    tell(peer, received(2, "copy", 0))
    assert tell(peer, without(1)) == [Send(2, "ask", 0, 0)]
    tell(peer, received(2, "copy", 0))
    assert tell(peer, received(2, "copy", 0, bucket=1))[-1] == Compute(4)


def test_a_change_of_members_between_tournaments_changes_nothing() -> None:
    peer = tournamentant()
    assert tell(peer, without(2)) == []
    assert tell(peer, EpochFinished(0, {})) == scores(1.5, others=(1,))


def test_a_score_that_did_not_arrive_before_the_change_is_told_again_to_those_who_stay() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), without(2))
    for target, again in ((1, scores(1.5, others=(1,))), (2, [])):
        assert tell(peer, Returned(target, "score", 0, 0, None, 1.0, {"badness": 1.5}, view=0)) == again


def test_a_question_that_did_not_arrive_before_the_change_is_not_repeated_besides() -> None:
    peer = waits_for_copy()
    tell(peer, without(1))
    assert tell(peer, Returned(2, "ask", 0, 0, None, 1.0, None, view=0)) == []
    assert tell(peer, Returned(2, "copy", 0, 0, IN0, 1.0, None, view=0)) == []


@pytest.mark.parametrize("kind", ["score", "ask", "copy"])
def test_what_a_broken_channel_returns_is_sent_again(kind: str) -> None:
    peer = waits_for_copy()
    data = {"badness": 1.5} if kind == "score" else None
    body = IN0 if kind == "copy" else None
    assert tell(peer, Returned(2, kind, 0, 0, body, 1.0, data, view=0)) == [Send(2, kind, 0, 0, body, 1.0, data)]


def test_the_snapshot_is_plain_in_the_midst_of_a_tournament() -> None:
    peer = waits_for_copy()
    assert is_plain(peer)
    assert (peer.snapshot()["source"], peer.snapshot()["missing"]) == (2, [0, 1])
    assert peer.snapshot()["told"] == {"0": {str(w): {"badness": b} for w, b in ((0, 1.5), (1, 0.5), (2, 1.0))}}


def test_who_had_asked_and_finds_nobody_better_left_forgets_what_had_come() -> None:
    peer = waits_for_copy()
    tell(peer, received(2, "copy", 0), without(1, 2))
    assert (peer.source, peer.missing, peer.holds_user) == (None, set(), False)
    assert "does not expect now" in refusal(peer, received(2, "copy", 0, bucket=1))


def test_the_best_of_the_last_tournament_is_asked_to_welcome_newcomers() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), told(1, 0.5), told(2, 1.0), received(2, "copy", 0), received(2, "copy", 0, 1))
    tell(peer, without(2))
    assert tell(peer, joined(0, 1, 2)) == [Send(1, "introduce", 4, 0, data={"newcomer": 2})]


def test_who_is_asked_to_welcomes_a_newcomer_with_what_it_has() -> None:
    peer = tournamentant(me=1)
    tell(peer, without(2), joined(0, 1, 2))
    welcome = [Send(2, "welcome", 4, b, params, data={"slot": "params"}) for b, params in enumerate((P0, P1))]
    told_where = Send(2, "welcome", 4, 0, data={"step": 4, "closed": -1})
    assert tell(peer, received(0, "introduce", 4, data={"newcomer": 2})) == [*welcome, told_where]


def test_the_lowest_welcomes_newcomers_itself_if_it_is_the_best_or_knows_no_scores() -> None:
    peer = tournamentant()
    tell(peer, EpochFinished(0, {}), told(1, 2.5), told(2, 0.1), received(2, "copy", 0), received(2, "copy", 0, 1))
    tell(peer, without(2))
    assert tell(peer, joined(0, 1, 2))[-1] == Send(2, "welcome", 4, 0, data={"step": 4, "closed": 0})
    peer = tournamentant()
    tell(peer, without(2))
    assert tell(peer, joined(0, 1, 2))[-1] == Send(2, "welcome", 4, 0, data={"step": 4, "closed": -1})


def test_who_has_just_come_is_not_in_the_tournament() -> None:
    peer = tournamentant()
    tell(peer, without(2), joined(0, 1, 2))
    assert tell(peer, EpochFinished(0, {})) == scores(1.5, others=(1,))
    assert peer.waiting_for() == "the score of epoch 0 from worker 1"
    assert tell(peer, told(1, 9.0)) == [Note("best", 1.0), Compute(4)]
    tell(peer, StepFinished(4, 1.0, 2.0))
    assert tell(peer, EpochFinished(1, {})) == scores(2.0, epoch=1)


def test_a_newcomer_is_in_tournaments_once_it_has_made_a_step() -> None:
    peer = Copier(1, "loss", 2, World(Roles(3), BUCKETS, view=2), Random(0))
    tell(peer, Started(2), joined(0, 1, 2), given(1, 4), given(1, 4, 1))
    assert tell(peer, handed(1, step=4, closed=0)) == [Compute(4)]
    assert tell(peer, EpochFinished(1, {})) == []
    assert not peer.holds_user
    tell(peer, StepFinished(4, 1.0, 2.0))
    assert tell(peer, EpochFinished(2, {})) == scores(2.0, epoch=2, others=(0, 1))
