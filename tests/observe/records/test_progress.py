"""How far a real run is."""

from math import isnan
from typing import Any

import pytest
from support.processes.records import status_with

from weft.observe.records.progress import GRACE_S, LOST, WINDOW_S, Progress, WorkerProgress, steps_in_all, steps_of_each
from weft.observe.records.status import Status


def status(rank: int = 0, time_s: float = 0.0, step: int = 0, **told: Any) -> Status:
    return status_with(rank=rank, time_s=time_s, step=step, **told)


def told(num_workers: int, *statuses: Status) -> Progress:
    """Every status is heard at the moment at which it was made."""
    progress = Progress(num_workers)
    for each in statuses:
        progress.update(each, each.time_s)
    return progress


def steady(samples_per_s: float, until_s: int, rank: int = 0) -> list[Status]:
    return [status(rank, float(t), t, samples=samples_per_s * t, waiting_s=0.25 * t) for t in range(until_s + 1)]


def test_before_anything_was_told_there_is_nothing_to_show() -> None:
    progress = Progress(2)
    assert progress.workers(1.0) == []
    assert progress.total(1.0) is None


def test_one_status_has_no_rates_yet() -> None:
    progress = told(1, status(0, 3.0, 7, samples=50.0, loss=0.5, staleness_mean=1.5, bytes_sent=9))
    assert progress.workers(3.0) == [WorkerProgress(0, 7, None, 0.5, 0.0, 0.0, 0.0, 1.5, "computes")]


def test_rates_and_shares_are_those_of_the_last_seconds() -> None:
    slow = [status(0, float(t), t, samples=10.0 * t) for t in range(11)]
    fast = [status(0, 10.0 + t, 10 + t, samples=100.0 + 50.0 * t, waiting_s=0.5 * t, bytes_sent=8 * t) for t in (2, 6)]
    (worker,) = told(1, *slow, *fast).workers(16.0)
    assert WINDOW_S == 5.0
    assert worker.samples_per_s == (400.0 - 100.0) / 6, "from the last mark that is five seconds old or older"
    assert worker.bytes_per_s == 48 / 6
    assert worker.waiting == 3.0 / 6


def test_a_worker_that_falls_silent_slows_down_after_a_grace() -> None:
    progress = told(1, *steady(100.0, 5))
    assert progress.workers(5.0 + GRACE_S)[0].samples_per_s == 100.0
    assert progress.workers(10.0 + GRACE_S)[0].samples_per_s == 50.0
    assert progress.workers(10.0 + GRACE_S)[0].waiting == 0.25


def test_the_clocks_of_workers_and_launcher_need_not_agree() -> None:
    progress = Progress(1)
    for each in steady(100.0, 5):
        progress.update(each, each.time_s + 1000.0)
    assert progress.workers(1005.5)[0].samples_per_s == 100.0


def test_a_status_that_was_overtaken_is_dropped() -> None:
    assert told(1, status(0, 2.0, 20), status(0, 1.0, 10)).workers(2.0)[0].step == 20


def test_losses_are_smoothed_by_step_and_one_that_is_not_finite_does_not_stay() -> None:
    progress = told(1, status(0, 0.0, 1, loss=2.0), status(0, 1.0, 2, loss=1.0))
    assert progress.workers(1.0)[0].loss == pytest.approx(1.7)
    progress.update(status(0, 2.0, 2, loss=1.0), 2.0)
    assert progress.workers(2.0)[0].loss == pytest.approx(1.7), "the same step again is no news"
    progress.update(status(0, 3.0, 3, loss=float("nan")), 3.0)
    assert isnan(progress.workers(3.0)[0].loss or 0.0)
    progress.update(status(0, 4.0, 4, loss=0.5), 4.0)
    progress.update(status(0, 5.0, 5, loss=None), 5.0)
    assert progress.workers(5.0)[0].loss == 0.5


def test_a_share_never_leaves_its_range_however_a_worker_rounds() -> None:
    progress = told(1, status(0, 0.0, waiting_s=0.0), status(0, 1.0, waiting_s=1.001))
    assert progress.workers(1.0)[0].waiting == 1.0


def test_history_stays_small_however_often_a_worker_tells() -> None:
    progress = told(1, *(status(0, t / 1000, t, samples=float(t)) for t in range(20_000)))
    assert progress.workers(20.0)[0].samples_per_s == pytest.approx(1000.0)
    assert len(progress._tracks[0].marks) < 30


def test_the_total_adds_rates_averages_shares_and_follows_the_one_furthest_behind() -> None:
    fast = status(1, 10.0, 40, samples=80.0, loss=0.2, waiting_s=6.0, staleness_mean=2.0, bytes_sent=40, steps_total=50)
    slow = status(0, 10.0, 20, samples=20.0, loss=0.4, waiting_s=2.0, bytes_sent=10, steps_total=50)
    progress = told(2, status(0), status(1), slow, fast)
    total = progress.total(10.0)
    assert total is not None
    assert (total.step, total.steps_total) == (20, 50)
    assert (total.loss, total.waiting) == (pytest.approx(0.3), pytest.approx(0.4))
    assert (total.samples_per_s, total.bytes_per_s, total.staleness_mean) == (10.0, 5.0, 1.0)
    assert (total.fraction, total.time_left_s) == (0.6, 15.0)


def test_the_end_is_unknown_until_every_worker_has_said_how_many_steps_it_will_make() -> None:
    one = [status(0, float(t), t, steps_total=10) for t in (0, 5)]
    total = told(2, *one).total(5.0)
    assert (total.fraction, total.time_left_s) == (None, None)
    total = told(2, *one, status(1, 5.0, 5)).total(5.0)
    assert (total.fraction, total.time_left_s) == (None, None)
    total = told(2, *one, status(1, 5.0, 5, steps_total=10)).total(5.0)
    assert (total.fraction, total.time_left_s) == (0.5, None), "one status of worker 1 has no pace yet"


def test_a_run_that_is_done_has_no_time_left() -> None:
    total = told(1, status(0, 0.0, 0, steps_total=10), status(0, 5.0, 10, steps_total=10)).total(5.0)
    assert (total.fraction, total.time_left_s) == (1.0, 0.0)


def test_a_script_without_steps_has_no_fraction() -> None:
    assert told(1, status(steps_total=0)).total(0.0).fraction is None


@pytest.mark.parametrize(
    ("steps", "samples", "expected"),
    [
        (50.0, 500.0, 100),
        (51.0, 500.0, 100),
        (100.0, 500.0, 200),
        (101.0, 505.0, 200),
        (12.0, 500.0, 25),
        (1.0, 0.0, 100),
        (0.0, 10.0, 100),
    ],
)
def test_all_steps_of_a_script_that_makes_several_for_a_batch_or_few_are_found_by_its_samples(
    steps: float, samples: float, expected: int
) -> None:
    assert steps_in_all(100, steps, samples / 1000) == expected


def test_a_lost_worker_is_shown_as_it_was_and_counts_no_more() -> None:
    lost = [status(0, float(t), t, samples=10.0 * t, bytes_sent=t, steps_total=50, loss=4.0) for t in range(6)]
    left = [status(1, float(t), 2 * t, samples=20.0 * t, bytes_sent=t, steps_total=50, loss=1.0) for t in range(6)]
    progress = told(2, *lost, *left)
    before = progress.total(5.0)
    assert before is not None
    assert (before.step, before.samples_per_s) == (5, 30.0)
    progress.lose(0, 5.0)
    gone, there = progress.workers(5.0)
    assert (gone.rank, gone.step, gone.samples_per_s, gone.bytes_per_s, gone.doing) == (0, 5, 0.0, 0.0, LOST)
    assert (there.rank, there.samples_per_s) == (1, 20.0)
    after = progress.total(5.0)
    assert after is not None
    assert (after.step, after.loss, after.samples_per_s, after.bytes_per_s) == (10, 1.0, 20.0, 1.0)
    assert (after.fraction, after.time_left_s) == (0.2, 20.0)
    progress.update(status(0, 9.0, 9), 9.0)
    assert progress.workers(9.0)[0] == gone, "what it said last may come late"


def test_one_that_is_lost_before_it_told_anything_is_neither_shown_nor_awaited() -> None:
    progress = told(2, *[status(0, float(t), t, steps_total=10) for t in (0, 5)])
    progress.lose(1, 5.0)
    progress.update(status(1, 6.0, 6), 6.0)
    assert [worker.rank for worker in progress.workers(6.0)] == [0]
    total = progress.total(5.0)
    assert total is not None
    assert (total.fraction, total.time_left_s) == (0.5, 5.0)


def test_a_newcomer_is_shown_in_the_place_of_the_lost_worker_and_counts() -> None:
    progress = told(2, *[status(rank, float(t), t, samples=10.0 * t) for rank in (0, 1) for t in range(6)])
    progress.lose(1, 5.0)
    progress.welcome(1)
    assert progress.num_workers == 2
    for time_s in (6.0, 7.0):
        progress.update(status(1, time_s - 5.5, int(time_s), samples=10.0 * (time_s - 5.0)), time_s)
    assert [(worker.rank, worker.step) for worker in progress.workers(7.0)] == [(0, 5), (1, 7)]


@pytest.mark.parametrize(("total", "planned"), [(None, 1000), (100, None), (100, 0)])
def test_without_a_plan_the_number_of_steps_is_what_is_known(total: int | None, planned: int | None) -> None:
    assert steps_of_each(total, planned, [status_with(step=10, samples=50.0)], 2) == total


def test_before_anybody_has_told_anything_each_makes_a_step_for_each_batch() -> None:
    assert steps_of_each(100, 1000, [], 2) == 100


def test_the_number_of_steps_follows_what_those_have_done_that_have_told_anything() -> None:
    one, two = status_with(rank=0, step=20, samples=50.0), status_with(rank=1, step=20, samples=50.0)
    assert steps_of_each(100, 1000, [one, two], 2) == 200, "a tenth of the samples took two steps for each batch"
    assert steps_of_each(100, 1000, [one], 2) == 200, "the other is taken to have done as much"
    assert steps_of_each(100, 1000, [status_with(step=5, samples=50.0)], 2) == 50, "gradients of two are added up"
