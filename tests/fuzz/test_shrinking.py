"""Failing scenarios are made small."""

from weft.fuzz import shrinking
from weft.fuzz.scenario import Scenario, draw
from weft.fuzz.shrinking import breaks, shrink
from weft.sim.faults.plan import Crash


def scenario_with_a_crash() -> Scenario:
    scenarios = (draw(seed, ("async_gossip",)) for seed in range(99))
    return next(s for s in scenarios if len(s.faults.schedule) > 3 and any(_crashes(s)))


def _crashes(scenario: Scenario) -> list[Crash]:
    return [fault for fault in scenario.faults.schedule if isinstance(fault, Crash)]


def test_only_what_the_failure_needs_is_left() -> None:
    small = shrink(scenario_with_a_crash(), lambda scenario: bool(_crashes(scenario)) and scenario.num_steps >= 5)
    assert [type(fault) for fault in small.faults.schedule] == [Crash]
    assert small.num_steps == 5


def test_it_gives_up_after_so_many_tries() -> None:
    asked = []
    scenario = scenario_with_a_crash()
    assert shrink(scenario, lambda scenario: bool(asked.append(scenario))) == scenario
    assert 0 < len(asked) <= shrinking.TRIES_MAX


def test_a_clean_scenario_breaks_nothing() -> None:
    assert not breaks(1)(scenario_with_a_crash())
