"""What the logs of a run with kills say."""

from math import inf

import pytest

from weft.bench.recovery_figures import (
    CommittedStep,
    WorkerKill,
    calm_goodput,
    committed_steps,
    first_after,
    full_strength_s,
    lost_work,
    next_step_s,
    percentile,
    samples_per_s,
    started_s,
    still_s,
)
from weft.bench.step_log import LoggedStep, ProcessLog


def process(rank: int, pid: int, started_s: float, *steps: tuple[float, int | None, float | None]) -> ProcessLog:
    """A log of batches of 10 samples: (begun at, step, committed at)."""
    return ProcessLog(rank, pid, started_s, [LoggedStep(began_s, 10, step, at_s) for began_s, step, at_s in steps])


GOES_ON = [
    process(0, 100, 0.0, (1.0, 1, 1.9), (2.0, 2, 2.9), (3.0, 3, 3.9), (4.0, 4, 4.9), (5.0, 5, 5.9)),
    process(1, 101, 0.0, (1.0, 1, 1.9), (2.0, None, None)),
    process(1, 102, 3.5, (4.1, 4, 4.8), (5.0, 5, 5.8)),
]
"""Worker 1 is killed in step 2; its successor makes step 4 with the other."""
STARTED_ANEW = [
    process(0, 100, 0.0, (1.0, 1, 1.9), (2.0, 2, 2.9), (3.0, 3, 3.9), (4.0, None, None)),
    process(1, 101, 0.0, (1.0, 1, 1.9), (2.0, 2, 2.9), (3.0, 3, 3.9), (4.0, None, None)),
    process(0, 102, 6.0, (6.1, 2, 6.9)),
    process(1, 103, 6.1, (6.2, 2, 7.0)),
]
"""Both are started anew from a snapshot of step 1."""


def numbers(logs: list[ProcessLog], *, are_common: bool = True) -> list[tuple[int, int]]:
    return sorted((one.pid, one.step) for one in committed_steps(logs, are_common=are_common))


def test_steps_of_a_newcomer_make_nothing_void() -> None:
    assert numbers(GOES_ON) == [*((100, step) for step in range(1, 6)), (101, 1), (102, 4), (102, 5)]


def test_a_process_that_begins_earlier_makes_void_what_came_later_than_its_first_step() -> None:
    assert numbers(STARTED_ANEW) == [(100, 1), (101, 1), (102, 2), (103, 2)]


def test_a_second_return_makes_void_what_the_first_return_committed() -> None:
    again = [*STARTED_ANEW, process(0, 104, 9.0, (9.1, 1, 9.9)), process(1, 105, 9.0, (9.1, 1, 9.9))]
    assert numbers(again) == [(104, 1), (105, 1)]


def test_where_each_worker_counts_for_itself_equal_numbers_mean_nothing() -> None:
    assert len(numbers(STARTED_ANEW, are_common=False)) == 8


def test_processes_that_never_commit_make_nothing_void() -> None:
    assert numbers([*STARTED_ANEW[:2], process(0, 102, 6.0)]) == numbers(STARTED_ANEW[:2])


def test_the_next_step_is_one_that_was_begun_after_the_kill() -> None:
    steps = committed_steps(GOES_ON)
    kill = WorkerKill(1, 101, 2.5)
    assert first_after(kill, steps) == {0: pytest.approx(1.4), 1: pytest.approx(2.3)}
    assert next_step_s(kill, steps) == pytest.approx(1.4)
    assert full_strength_s(kill, steps, 2) == pytest.approx(2.3)


def test_steps_that_are_rolled_back_are_no_next_step() -> None:
    kill = WorkerKill(1, 101, 2.5)
    assert next_step_s(kill, committed_steps(STARTED_ANEW)) == pytest.approx(4.4)
    assert full_strength_s(kill, committed_steps(STARTED_ANEW), 2) == pytest.approx(4.5)


def test_who_does_not_come_back_is_waited_for_for_ever() -> None:
    steps = committed_steps(GOES_ON[:2])
    assert full_strength_s(WorkerKill(1, 101, 2.5), steps, 2) == inf
    assert next_step_s(WorkerKill(1, 101, 5.5), steps) == inf


def test_the_batch_of_the_killed_one_is_lost() -> None:
    assert lost_work(GOES_ON, committed_steps(GOES_ON), 0.0, 10.0) == (1, 10)


def test_what_was_rolled_back_and_what_was_under_way_is_lost() -> None:
    assert lost_work(STARTED_ANEW, committed_steps(STARTED_ANEW), 0.0, 10.0) == (6, 60)


def test_only_what_was_begun_in_the_time_that_counts_can_be_lost() -> None:
    assert lost_work(STARTED_ANEW, committed_steps(STARTED_ANEW), 2.5, 4.0) == (2, 20)


def test_samples_count_when_their_step_is_committed_and_not_rolled_back() -> None:
    assert samples_per_s(committed_steps(GOES_ON), 1.5, 3.5) == pytest.approx(30 / 2)
    assert samples_per_s(committed_steps(STARTED_ANEW), 0.0, 10.0) == pytest.approx(40 / 10)


@pytest.mark.parametrize(
    ("values", "fraction", "value"),
    [([3.0, 1.0, 2.0], 0.5, 2.0), ([1.0, 2.0], 0.5, 1.0), ([1.0, inf, 2.0], 0.99, inf), ([5.0], 0.0, 5.0)],
)
def test_a_percentile_is_one_of_the_values(values: list[float], fraction: float, value: float) -> None:
    assert percentile(values, fraction) == value


def test_of_a_hundred_values_two_are_beyond_the_98th_percentile() -> None:
    assert percentile([float(number) for number in range(1, 101)], 0.98) == 98.0


def test_the_start_of_a_new_process_and_the_rest_of_the_others_are_read_off_the_logs() -> None:
    kill, steps = WorkerKill(1, 101, 2.3), committed_steps(GOES_ON)
    assert started_s(kill, GOES_ON) == pytest.approx(1.2)
    assert still_s(kill, GOES_ON, steps) == pytest.approx(0.9), "from 3.9 until the newcomer's first step, at 4.8"
    survivors = GOES_ON[:2]
    assert (started_s(kill, survivors), still_s(kill, survivors, steps)) == (inf, inf)
    assert still_s(kill, GOES_ON, committed_steps(survivors)) == inf, "it came, and made no step"


def every_tenth_s(rank: int, pid: int, since_s: float, until_s: float) -> list[CommittedStep]:
    """Steps of one sample, each of which takes a tenth of a second."""
    times = [since_s + number / 10 for number in range(1, round(10 * (until_s - since_s)) + 1)]
    return [CommittedStep(time_s, time_s - 0.1, rank, pid, number, 1) for number, time_s in enumerate(times)]


def test_goodput_is_what_was_committed_over_the_rate_of_calm_times() -> None:
    kill = WorkerKill(1, 11, 10.0)
    newcomer = every_tenth_s(1, 12, 12.0, 20.0)
    steps = sorted([*every_tenth_s(0, 10, 0.0, 20.0), *every_tenth_s(1, 11, 0.0, 9.9), *newcomer])
    goodput = calm_goodput([kill], steps, 2, 0.0, 20.001)
    assert goodput == pytest.approx((400 - 21) / 400, abs=0.005)
    assert calm_goodput([kill], [one for one in steps if one.pid != 12], 2, 0.0, 20.0) is None
    assert calm_goodput([WorkerKill(1, 11, 1.0)], steps, 2, 0.0, 3.0) is None, "there was no calm time"
