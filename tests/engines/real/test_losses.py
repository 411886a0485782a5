"""What is told of a lost worker, that nobody waits for it at a report, a save or the end, and who takes its place."""

import pytest
from msgspec import to_builtins
from support.processes.records import status_with
from support.processes.sessions import STATUS, Talk, joined

from weft.core.consensus import END
from weft.engines.real import timeouts
from weft.engines.real.losses import LEFT, QUARANTINED, Losses, WorkerLoss
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.tracks import Incident
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Decided,
    Evaluated,
    ReplicaTold,
    Reported,
    Saves,
    ScriptCompleted,
)

LOSS = WorkerLoss(worker=2, cause="killed by signal 9", step=31, detected_s=1.5)


def test_a_loss_says_who_when_and_why() -> None:
    assert str(LOSS) == "worker 2 is lost at step 31: killed by signal 9"


def test_one_that_was_told_to_leave_is_not_called_lost() -> None:
    left = WorkerLoss(worker=2, how=LEFT, cause="SIGTERM", step=326, detected_s=1.5)
    assert str(left) == "worker 2 left at step 326, after SIGTERM"


def test_a_loss_is_told_in_json_without_a_time_at_which_nobody_was_told() -> None:
    assert to_builtins(LOSS) == {
        "worker": 2,
        "how": "lost",
        "cause": "killed by signal 9",
        "step": 31,
        "detected_s": 1.5,
        "told_s": None,
        "committed_s": None,
        "replaced_s": None,
    }


def test_losses_are_kept_in_order_with_the_last_step_that_each_worker_told_of() -> None:
    losses = Losses()
    silent, heard = WorkerRecord(2, "mill", 102), WorkerRecord(0, "mill", 100)
    heard.status = status_with(step=31)
    first, second = losses.add(silent, "killed by signal 9", 1.5), losses.add(heard, "it was silent", 1.75)
    assert losses.all == [first, second]
    assert first == WorkerLoss(worker=2, cause="killed by signal 9", step=0, detected_s=1.5)
    assert losses.statuses == [heard.status], "the other has told nothing"
    assert second == WorkerLoss(worker=0, cause="it was silent", step=31, detected_s=1.75)


def test_a_trace_shows_when_a_worker_was_lost_and_when_it_was_replaced() -> None:
    losses = Losses()
    losses.add(WorkerRecord(2, "mill", 102), "its gradients were bad", 1.5, QUARANTINED)
    (lost,) = losses.all[0].incidents()
    assert lost == Incident(2, 1.5, "quarantined", {"cause": "its gradients were bad", "step": 0})
    replaced = Incident(2, 1.75, "replaced", {"cause": "its gradients were bad"})
    assert list(losses.replaced(2, 1.75).incidents()) == [lost, replaced]


def test_a_view_is_told_of_all_that_were_lost_since_the_one_before() -> None:
    losses = Losses()
    for rank in (0, 1):
        losses.add(WorkerRecord(rank, "mill", 100), "", 1.0)
    losses.told(2.0)
    losses.add(WorkerRecord(2, "mill", 100), "", 3.0)
    assert [loss.told_s for loss in losses.all] == [2.0, 2.0, None]
    losses.told(4.0)
    assert [loss.told_s for loss in losses.all] == [2.0, 2.0, 4.0]


def test_a_step_is_committed_without_those_of_whom_the_view_was_told() -> None:
    losses = Losses()
    losses.add(WorkerRecord(0, "mill", 100), "", 1.0)
    losses.told(2.0)
    losses.add(WorkerRecord(2, "mill", 100), "", 3.0)
    losses.committed(4.0)
    assert [loss.committed_s for loss in losses.all] == [4.0, None]
    losses.told(5.0)
    losses.committed(6.0)
    assert [loss.committed_s for loss in losses.all] == [4.0, 6.0]


def test_a_newcomer_replaces_the_last_loss_of_its_worker_and_no_other() -> None:
    losses = Losses()
    for now_s, rank in enumerate((1, 0, 1)):
        losses.add(WorkerRecord(rank, "mill", 100), "", float(now_s))
    told = losses.replaced(1, 5.0)
    assert told == WorkerLoss(worker=1, cause="", step=0, detected_s=2.0, replaced_s=5.0)
    assert [loss.replaced_s for loss in losses.all] == [None, None, 5.0]
    assert losses.all[2] == told
    losses.replaced(0, 6.0)
    assert [loss.replaced_s for loss in losses.all] == [None, 6.0, 5.0]


def test_the_next_death_of_a_worker_that_was_replaced_is_fresh_again() -> None:
    losses = Losses()
    late_s = 10.0 + timeouts.LAYING_OUT_S
    for rank in (0, 1):
        assert losses.is_fresh(rank, 10.0)
        losses.add(WorkerRecord(rank, "mill", 100), "", 10.0)
    losses.replaced(1, 11.0)
    assert not losses.is_fresh(0, late_s)
    assert losses.is_fresh(1, late_s)


def test_a_death_is_fresh_while_the_others_may_still_be_laying_out() -> None:
    losses = Losses()
    assert losses.is_fresh(1, 10.0)
    assert losses.is_fresh(1, 10.0 + timeouts.LAYING_OUT_S - 0.5)
    assert losses.is_fresh(0, 10.0 + timeouts.LAYING_OUT_S), "each since it was first asked for"
    assert not losses.is_fresh(1, 10.0 + timeouts.LAYING_OUT_S)


@pytest.mark.parametrize("lost", range(3))
def test_a_report_does_not_wait_for_a_lost_worker_whether_it_had_come_or_not(lost: int) -> None:
    talk, others = Talk(), [rank for rank in range(3) if rank != lost]
    talk.hear(lost, Reported(0, 0, {"loss": 6.0}, []))
    for number in (0, 1):
        talk.hear(others[0], Reported(number, number, {"loss": 1.0}, []))
    talk.hear(others[1], Reported(1, 1, {"loss": 3.0}, []))
    assert talk.reports == []
    assert talk.lose(lost) == []
    assert talk.reports == [(1, {"loss": 2.0}, None)]
    talk.hear(others[1], Reported(0, 0, {"loss": 2.0}, []))
    assert talk.reports[1:] == [(0, {"loss": 3.0}, None)], "what it had told counts"


@pytest.mark.parametrize("lost", [0, 1])
def test_the_last_of_those_who_are_left_is_chosen_to_evaluate_and_to_save(lost: int) -> None:
    talk, others = Talk(), [rank for rank in range(3) if rank != lost]
    talk.lose(lost)
    for first, second in (others, reversed(others)):
        number = len(talk.reports)
        assert talk.hear(first, Reported(number, 0, {}, ["accuracy"])) == [(first, Decided(False, best=others[0]))]
        assert talk.hear(second, Reported(number, 0, {}, ["accuracy"])) == [(second, Decided(True, best=others[0]))]
        talk.hear(second, Evaluated(number, 0, {"accuracy": 0.5}))
    assert len(talk.reports) == 2
    assert talk.hear(others[0], Saves(0, path="model")) == [(others[0], Decided(False, best=others[0]))]
    assert talk.hear(others[1], Saves(0, path="model")) == [(others[1], Decided(True, best=others[0]))]


def test_what_a_lost_worker_was_evaluating_is_told_and_the_report_has_the_other_numbers() -> None:
    talk = Talk(strategy="allreduce")
    talk.join(joined(), joined(), joined())
    assert talk.hear(0, Reported(0, 4, {"loss": 1.0}, ["accuracy"])) == [(0, Decided(True))]
    assert talk.hear(1, Reported(0, 4, {"loss": 3.0}, ["accuracy"])) == [(1, Decided(False))]
    talk.lose(0)
    assert talk.words[-1] == "what worker 0 was evaluating for the report of epoch 5 is lost with it"
    assert talk.reports == []
    talk.hear(2, Reported(0, 4, {"loss": 5.0}, ["accuracy"]))
    assert talk.reports == [(4, {"loss": 3.0}, None)]


def test_who_had_evaluated_before_it_was_lost_is_not_told_of() -> None:
    talk = Talk(strategy="allreduce")
    talk.join(joined(), joined(), joined())
    words = len(talk.words)
    talk.hear(0, Reported(0, 4, {}, ["accuracy"]))
    talk.hear(0, Evaluated(0, 4, {"accuracy": 0.5}))
    talk.hear(1, Reported(0, 4, {}, ["accuracy"]))
    talk.lose(0)
    talk.hear(2, Reported(0, 4, {}, ["accuracy"]))
    assert talk.reports == [(4, {"accuracy": 0.5}, None)]
    assert talk.words[words:] == []


def test_what_a_lost_worker_was_saving_is_told_and_does_not_count_as_saved() -> None:
    talk = Talk(2)
    for number, path in enumerate(("first", "second")):
        talk.hear(0, Saves(number, path=path))
        talk.hear(1, Saves(number, path=path))
    assert talk.engine.saves.saved == ["first", "second"]
    talk.lose(1)
    assert talk.words == ["'second' may not be written: worker 1, which was to save it, is lost"]
    assert talk.engine.saves.saved == ["first"]


def test_what_a_lost_worker_had_saved_before_its_next_word_is_saved() -> None:
    talk = Talk(2)
    talk.hear(0, Saves(0, path="model"))
    talk.hear(1, Saves(0, path="model"))
    talk.hear(1, Reported(0, 0, {}, []))
    talk.lose(1)
    assert talk.words == []
    assert talk.engine.saves.saved == ["model"]


@pytest.mark.parametrize("lost", range(3))
def test_nobody_waits_for_a_lost_worker_at_the_end_and_the_first_of_the_others_concludes(lost: int) -> None:
    talk, others = Talk(), [rank for rank in range(3) if rank != lost]
    talk.join(joined("gossip"), joined("gossip"), joined("gossip"))
    talk.hear(others[0], Reported(0, 0, {"loss": 1.0}, ["accuracy"]))
    talk.hear(others[0], Saves(0, path="model"))
    talk.hear(lost, Saves(1, path="lost"))
    for rank in others:
        assert talk.hear(rank, ScriptCompleted(STATUS)) == []
    first = others[0]
    assert talk.lose(lost) == [(rank, Conclude([0], [0] if rank == first else [], first, first)) for rank in others]
    talk.hear(first, Evaluated(0, 0, {"accuracy": 0.5}))
    assert talk.reports == [(0, {"loss": 1.0, "accuracy": 0.5}, None)]
    assert talk.hear(first, Concluded(0.5, [])) == []
    assert talk.hear(others[1], Concluded(None, None)) == [(rank, Conclude([], [], first)) for rank in others]
    assert talk.engine.is_over
    assert talk.engine.consensus == 0.5


def test_one_that_is_lost_before_the_others_end_is_not_waited_for_either() -> None:
    talk = Talk()
    talk.join(joined(), joined(), joined())
    talk.hear(0, ScriptCompleted(STATUS))
    assert talk.lose(0) == []
    assert talk.hear(2, ScriptCompleted(STATUS)) == []
    assert talk.hear(1, ScriptCompleted(STATUS)) == [(rank, Conclude([], [], 1, 1)) for rank in (1, 2)]


@pytest.mark.parametrize("lost", range(3))
def test_nobody_waits_for_the_last_word_of_a_lost_worker(lost: int) -> None:
    talk, others = Talk(), [rank for rank in range(3) if rank != lost]
    talk.join(joined(), joined(), joined())
    for rank in range(3):
        talk.hear(rank, ScriptCompleted(STATUS))
    for rank in others:
        assert talk.hear(rank, Concluded(None, None)) == []
    assert talk.lose(lost) == [(rank, Conclude([], [], others[0])) for rank in others]
    assert talk.engine.is_over


def test_what_the_first_was_to_evaluate_and_save_at_the_end_is_told_when_it_is_lost() -> None:
    talk = Talk(3)
    talk.join(joined("gossip"), joined("gossip"), joined("gossip"))
    words = len(talk.words)
    talk.hear(0, Reported(0, 7, {"loss": 1.0}, ["accuracy"]))
    talk.hear(0, Saves(0, path="model"))
    for rank in range(3):
        talk.hear(rank, ScriptCompleted(STATUS))
    talk.lose(0)
    assert talk.words[words:] == [
        "what worker 0 was evaluating for the report of epoch 8 is lost with it",
        "'model' may not be written: worker 0, which was to save it, is lost",
    ]
    assert talk.reports == [(7, {"loss": 1.0}, None)]
    assert talk.engine.saves.saved == []


def test_who_is_lost_is_not_the_best() -> None:
    talk = Talk(2)
    talk.hear(1, Reported(0, 0, {}, [], badness=0.25))
    talk.lose(1)
    assert talk.hear(0, Saves(0, badness=0.5)) == [(0, Decided(True, best=0))]


def test_replicas_that_only_waited_for_the_lost_one_are_compared() -> None:
    talk = Talk(strategy="allreduce")
    talk.join(joined(), joined(), joined())
    for rank in (0, 2):
        talk.hear(rank, ReplicaTold(END, 8, {"w": 1}))
        talk.hear(rank, ScriptCompleted(STATUS))
    talk.lose(1)
    for rank in (0, 2):
        talk.hear(rank, Concluded(None, None))
    assert talk.engine.consensus == 0.0
