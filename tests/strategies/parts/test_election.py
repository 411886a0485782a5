"""Election of the best replica, as one worker of FAST sees it."""

from typing import Any

import pytest
from support.peers.newcomers import given, handed, joined, newcomer

from weft.core.actions import Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import EpochFinished, Received, Returned, StepFinished
from weft.core.names import Buffer
from weft.strategies import Neighbours
from weft.testing.peers import IN0, IN1, P0, P1, TWO, is_plain, members, peer_of, received, refusal, tell

INFINITE = float("inf")
ELECTED = Note("elected", 1.0)
BEST = Buffer("election.best", 0)


def voter(me: int = 0, elect: int = 1, score: str = "loss", num_workers: int = 3) -> Any:
    """A worker that has taken 4 steps."""
    peer = peer_of(Neighbours(wait="any", elect=elect, score=score), me, num_workers, TWO)
    tell(peer, *(StepFinished(step, 1.0, float(step)) for step in range(4)))
    return peer


def score(source: int, badness: float, epoch: int = 0) -> Received:
    return received(source, "score", epoch, data={"badness": badness})


def told(badness: float, epoch: int = 0, others: tuple[int, ...] = (1, 2)) -> list[Send]:
    return [Send(to, "score", epoch, 0, data={"badness": badness}) for to in others]


def test_the_mean_training_loss_of_the_epoch_is_told_to_everybody() -> None:
    peer = voter()
    assert tell(peer, EpochFinished(0, {})) == told(1.5)
    assert peer.waiting_for() == "the score of epoch 0 from worker 1, 2"


def test_each_epoch_has_its_own_mean() -> None:
    peer = voter(num_workers=2)
    tell(peer, EpochFinished(0, {}), score(1, 9.0), StepFinished(4, 1.0, 7.0))
    assert tell(peer, EpochFinished(1, {})) == told(7.0, epoch=1, others=(1,))


def test_a_reported_number_of_that_name_is_the_score() -> None:
    assert tell(voter(), EpochFinished(0, {"loss": 0.25})) == told(0.25)


@pytest.mark.parametrize("name", ["loss", "test_error", "perplexity"])
def test_of_losses_errors_and_perplexities_the_smaller_is_better(name: str) -> None:
    assert tell(voter(score=name), EpochFinished(0, {name: 0.25})) == told(0.25)


def test_of_other_scores_the_larger_is_better() -> None:
    assert tell(voter(score="accuracy"), EpochFinished(0, {"accuracy": 0.25})) == told(-0.25)


def test_a_score_that_the_script_does_not_report_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        tell(voter(score="acuracy"), EpochFinished(0, {"accuracy": 0.9}))
    assert str(refused.value) == (
        "the election goes by 'acuracy', which the script does not report.\n  Did you mean 'accuracy'?"
    )


@pytest.mark.parametrize("numbers", [{}, {"accuracy": float("nan")}])
def test_a_worker_without_a_score_stands_last(numbers: dict[str, float]) -> None:
    assert tell(voter(score="accuracy"), EpochFinished(0, numbers)) == told(INFINITE)


def test_the_winner_sends_its_parameters_to_all_others_and_goes_on() -> None:
    peer = voter(me=1)
    assert tell(peer, EpochFinished(0, {}), score(0, 2.0)) == []
    assert tell(peer, score(2, 1.75)) == [
        Send(0, "best", 0, 0, P0),
        Send(0, "best", 0, 1, P1),
        Send(2, "best", 0, 0, P0),
        Send(2, "best", 0, 1, P1),
        ELECTED,
        Compute(4),
    ]
    assert not peer.holds_user


def test_the_others_restart_from_the_winners_parameters() -> None:
    peer = voter()
    assert tell(peer, EpochFinished(0, {}), score(1, 1.0), score(2, 2.0)) == []
    assert peer.waiting_for() == "the best replica of epoch 0 (2 buckets to go)"
    assert tell(peer, received(1, "best", 0)) == [Combine(BEST, 0.0, IN0)]
    assert peer.holds_user
    assert tell(peer, received(1, "best", 0, bucket=1)) == [
        Combine(P0, 0.0, BEST),
        Combine(P1, 0.0, IN1),
        ELECTED,
        Compute(4),
    ]
    assert not peer.holds_user


def test_ties_go_to_the_lowest_rank() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.5))
    assert tell(peer, score(2, 1.5))[-1] == Compute(4)


def test_scores_may_come_before_the_own_epoch_is_finished() -> None:
    peer = voter()
    assert tell(peer, score(1, 2.0), score(2, 2.0)) == []
    assert tell(peer, EpochFinished(0, {}))[-2:] == [ELECTED, Compute(4)]


def test_the_winners_parameters_may_overtake_another_workers_score() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.0), received(1, "best", 0))
    assert peer.waiting_for() == "the best replica of epoch 0 (1 buckets to go)"
    assert tell(peer, score(2, 2.0)) == []
    assert tell(peer, received(1, "best", 0, bucket=1))[-2:] == [ELECTED, Compute(4)]


def test_a_score_that_comes_after_the_election_is_ignored() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.0), received(1, "best", 0), received(1, "best", 0, bucket=1))
    assert tell(peer, score(2, 2.0)) == []
    assert peer.snapshot()["election"]["scores"] == {}


def test_an_election_comes_only_after_so_many_epochs() -> None:
    peer = voter(elect=3)
    assert tell(peer, EpochFinished(0, {})) == tell(peer, EpochFinished(1, {})) == []
    assert tell(peer, EpochFinished(2, {})) == told(1.5, epoch=2)


def test_one_worker_alone_elects_itself() -> None:
    assert tell(voter(num_workers=1), EpochFinished(0, {})) == [ELECTED, Compute(4)]


def test_a_best_replica_that_nobody_awaits_is_refused() -> None:
    expected = "worker 0 received the best replica of epoch {} (bucket {}) from worker 1, but awaits that of epoch {}."
    peer = voter()
    assert refusal(peer, received(1, "best", 0)) == expected.format(0, 0, None)
    tell(peer, EpochFinished(0, {}), score(1, 1.0), received(1, "best", 0))
    assert refusal(peer, received(1, "best", 1)) == expected.format(1, 0, 0)
    assert refusal(peer, received(1, "best", 0)) == expected.format(0, 0, 0)


def test_a_best_replica_that_comes_again_is_ignored() -> None:
    peer = voter()
    whole = [received(1, "best", 0), received(1, "best", 0, bucket=1)]
    tell(peer, EpochFinished(0, {}), score(1, 1.0), *whole)
    assert tell(peer, received(2, "best", 0)) == []


def test_those_who_stay_decide_without_the_score_of_one_who_has_left() -> None:
    peer = voter()
    assert tell(peer, EpochFinished(0, {}), score(1, 2.0)) == []
    assert tell(peer, members(0, 1)) == [
        Send(1, "best", 0, 0, P0),
        Send(1, "best", 0, 1, P1),
        ELECTED,
        Compute(4),
    ]


def test_if_the_winner_leaves_the_best_of_the_others_is_asked_for_what_it_holds() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.25), score(2, 1.0), received(2, "best", 0))
    assert tell(peer, members(0, 1)) == [Send(1, "want", 0, 0)]
    assert peer.waiting_for() == "the best replica of epoch 0 (2 buckets to go)"
    tell(peer, received(1, "best", 0))
    assert tell(peer, received(1, "best", 0, bucket=1))[-2:] == [ELECTED, Compute(4)]


def test_half_of_a_replica_whose_sender_has_left_is_never_taken() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 2.0), score(2, 1.0))
    assert tell(peer, received(2, "best", 0)) == [Combine(BEST, 0.0, IN0)]
    assert tell(peer, members(0, 1))[0] == Send(1, "best", 0, 0, P0)


def test_a_score_that_comes_after_the_change_decides_and_asks_as_well() -> None:
    peer = voter()
    assert tell(peer, EpochFinished(0, {}), members(0, 1)) == []
    assert peer.waiting_for() == "the score of epoch 0 from worker 1"
    assert tell(peer, score(1, 1.0)) == [Send(1, "want", 0, 0)]


def test_who_has_ended_the_election_sends_what_it_holds_to_who_asks() -> None:
    peer = voter()
    whole = [received(2, "best", 0), received(2, "best", 0, bucket=1)]
    tell(peer, EpochFinished(0, {}), score(1, 2.0), score(2, 1.0), *whole, members(0, 1))
    asked = Received(1, "want", 0, 0, None, 1.0, None)
    assert tell(peer, asked) == [Send(1, "best", 0, 0, P0), Send(1, "best", 0, 1, P1)]


def test_who_is_asked_before_it_has_decided_sends_to_all_when_it_has() -> None:
    peer = voter(num_workers=4)
    tell(peer, EpochFinished(0, {}), score(1, 2.0), members(0, 1, 2))
    assert tell(peer, Received(1, "want", 0, 0, None, 1.0, None)) == []
    assert tell(peer, score(2, 2.0))[:4] == [Send(to, "best", 0, b, p) for to in (1, 2) for b, p in ((0, P0), (1, P1))]


def test_a_winner_who_stays_is_still_awaited_after_a_change() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.0), score(2, 2.0), received(1, "best", 0))
    assert tell(peer, members(0, 1)) == []
    assert tell(peer, received(1, "best", 0, bucket=1))[-2:] == [ELECTED, Compute(4)]


def test_scores_that_did_not_arrive_before_a_change_are_told_again_to_those_who_stay() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), members(0, 1))
    data = {"badness": 1.5}
    assert tell(peer, Returned(1, "score", 0, 0, None, 1.0, data, 0)) == [Send(1, "score", 0, 0, data=data)]
    assert tell(peer, Returned(2, "score", 0, 0, None, 1.0, data, 0)) == []


def test_the_last_worker_elects_itself() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}))
    assert tell(peer, members(0)) == [ELECTED, Compute(4)]


def test_the_snapshot_is_plain() -> None:
    peer = voter()
    tell(peer, EpochFinished(0, {}), score(1, 1.0), received(1, "best", 0))
    assert peer.snapshot()["election"] == {
        "arrivals": {"step": -1, "workers": []},
        "losses": [],
        "scores": {"0": {"0": 1.5, "1": 1.0}},
        "winner": 1,
        "missing": [1],
        "asks": False,
        "clock": 0,
        "closed": -1,
    }
    assert is_plain(peer)


def test_who_has_just_come_neither_wins_nor_is_waited_for() -> None:
    peer = voter()
    tell(peer, members(0, 1), joined(0, 1, 2))
    assert tell(peer, EpochFinished(0, {})) == told(1.5, others=(1,))
    assert peer.waiting_for() == "the score of epoch 0 from worker 1"
    best = [Send(1, "best", 0, bucket, params) for bucket, params in enumerate((P0, P1))]
    assert tell(peer, score(1, 9.0)) == [*best, ELECTED, Compute(4)]
    tell(peer, StepFinished(4, 1.0, 7.0))
    assert tell(peer, EpochFinished(1, {})) == told(7.0, epoch=1)


def test_a_newcomer_stands_in_elections_once_it_has_made_a_step() -> None:
    peer = newcomer(Neighbours(wait="any"), 2, 0, 1, 2, num_workers=3, buckets=TWO)
    tell(peer, given(0, 4), given(0, 4, 1), handed(0, step=4, closed=0))
    assert tell(peer, EpochFinished(0, {})) == []
    assert not peer.holds_user
    tell(peer, StepFinished(4, 1.0, 7.0))
    assert tell(peer, EpochFinished(1, {})) == told(7.0, epoch=1, others=(0, 1))
    assert peer.holds_user
