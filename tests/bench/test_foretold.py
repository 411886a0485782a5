"""The goodput of killed workers is foretold."""

from dataclasses import replace

import pytest

from weft.bench.disturbed_run import PlannedKill, planned_kills
from weft.bench.foretold import ForetoldCourse, PlannedDraws, committed, foretold_goodput
from weft.cost.recovery import RecoveryTimes

COURSE = ForetoldCourse("allreduce", 4, 2, 32, 0.04, 10.0)
PLAN = planned_kills(2.0, 10.0, 4, 0)


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "async_gossip"])
def test_without_kills_a_step_takes_as_long_as_it_was_told(strategy: str) -> None:
    facts = committed(replace(COURSE, strategy=strategy), ())
    assert facts.samples == pytest.approx(4 * 32 * 10.0 / 0.04, rel=0.05)
    assert foretold_goodput(replace(COURSE, strategy=strategy), ()) == 1.0


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "async_gossip"])
def test_kills_cost_what_their_times_say(strategy: str) -> None:
    course = replace(COURSE, strategy=strategy)
    times = RecoveryTimes(notice_s=0.01, start_s=0.05, rest_s=0.01)
    quick, usual, slow = (
        foretold_goodput(replace(course, times=changed), PLAN)
        for changed in (times, RecoveryTimes(), RecoveryTimes(rest_s=0.5))
    )
    assert 1.0 > quick > usual > slow
    stood_still_s = len(PLAN) * (0.5 - RecoveryTimes().rest_s)
    assert usual - slow == pytest.approx(stood_still_s / course.seconds, abs=0.03)


def test_on_shared_cores_the_others_do_the_work_of_the_lost_one_meanwhile() -> None:
    times = RecoveryTimes(notice_s=0.01, start_s=0.0, rest_s=0.0)
    kill = [PlannedKill(1.0, 2)]
    away = replace(times, start_s=4.0)  # seconds of a core: most of the run
    alone = replace(COURSE, num_cores=4, times=away)
    assert foretold_goodput(alone, kill) == pytest.approx(0.9, abs=0.02), "a quarter is away for 4 of 10 s"
    shared = replace(COURSE, num_cores=2, times=replace(times, start_s=1e-3))
    assert foretold_goodput(shared, kill) > 0.99


def test_a_step_on_shared_cores_takes_less_of_a_core_than_it_lasts() -> None:
    assert COURSE.core_s == 0.02
    assert replace(COURSE, num_cores=8).core_s == 0.04


def test_the_kills_are_those_of_the_plan_and_of_those_who_are_there() -> None:
    draws = PlannedDraws([PlannedKill(1.5, 2), PlannedKill(3.0, 0)])
    assert draws.next_s(0.0) == 1.5
    assert draws.next_s(1.5) == 3.0
    assert draws.victim([0, 1, 2]) == 2
    assert draws.next_s(3.0) is None
    assert draws.victim([1, 2]) is None
