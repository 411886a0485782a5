"""What an auditor can work out from the evidence."""

from dataclasses import replace

import pytest

from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Crash, EarlyFinish, Fault, Faults, Rejoin


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    faults = Faults((Crash(1, 0.05), EarlyFinish(2, 3)), notice_s=0.01, fence_s=0.5)
    scenario = next(s for s in (draw(seed, ("async_gossip",)) for seed in range(99)) if s.num_workers >= 4)
    return run(replace(scenario, faults=faults))


def test_who_was_lost_and_who_only_left(evidence: Evidence) -> None:
    assert evidence.lost == {1}
    assert {1, 2} <= set(evidence.out_ns) < set(evidence.world.workers)
    assert evidence.out_ns[1] == pytest.approx(0.06e9)
    assert evidence.is_out(1, int(0.07e9))
    assert not evidence.is_out(1, int(0.05e9))


def test_servers_that_were_started_anew(evidence: Evidence) -> None:
    assert evidence.moved == set()
    faults = Faults((Crash(0, 0.05),), notice_s=0.01, fence_s=0.5)
    served = run(replace(draw(0, ("ps(servers=2)",)), faults=faults))
    assert served.moved == {served.world.servers[0]}


def test_members_are_those_of_the_last_view(evidence: Evidence) -> None:
    assert 1 in evidence.members_at(int(0.059e9))
    assert 1 not in evidence.members_at(int(0.061e9))


def test_steps_are_those_that_were_finished(evidence: Evidence) -> None:
    assert [step.step for step in evidence.steps if step.worker == 2] == [0, 1, 2]
    assert evidence.name == "async_gossip"
    assert len(evidence.trace) == 16


@pytest.mark.parametrize("ends", [None, 1])
def test_a_newcomer_has_a_first_step_though_its_script_may_end_there(ends: int | None) -> None:
    early: list[Fault] = [] if ends is None else [EarlyFinish(1, ends)]
    schedule: tuple[Fault, ...] = (Crash(1, 0.05), Rejoin(1, 0.1), *early)
    scenario = next(s for s in (draw(seed, ("asgd",)) for seed in range(99)) if s.num_workers >= 4)
    faults = Faults(schedule, notice_s=0.01, fence_s=0.5)
    evidence = run(replace(scenario, faults=faults, samples=scenario.samples + scenario.samples))
    (joined,) = [view for view in evidence.views if view.reason == "joined worker 1"]
    sponsor = [step.step for step in evidence.steps if step.worker == 0 and step.at_ns <= joined.since_ns]
    assert evidence.first_steps == {(1, joined.number): sponsor[-1] + 1}
    assert any(step.life == scenario.num_workers for step in evidence.steps) is (ends is None)
