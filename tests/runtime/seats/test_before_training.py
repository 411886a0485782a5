"""Before training there is nothing to drive, and the others have to join."""

from weft.runtime.measure.activity_clock import ActivityClock
from weft.runtime.measure.metrics import Metrics
from weft.runtime.seats.before_training import BeforeTraining


def test_nothing_is_driven_nor_due_and_all_end_after_the_same_step() -> None:
    before = BeforeTraining()
    assert not before.driver.progress()
    assert before.driver.next_due_s is None
    assert before.keeps_step


def test_a_worker_waits_for_the_others_to_join_and_counts_nothing() -> None:
    before, metrics = BeforeTraining(), Metrics(0, ActivityClock())
    untouched = dict(vars(metrics))
    before.check_alive()
    before.tell_counters(metrics)
    assert vars(metrics) == untouched
    assert before.waiting_for() == "the other workers to join"
