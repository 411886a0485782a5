"""Makes a failing scenario small: fewer faults, fewer steps, as long as the same invariant breaks."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from weft.fuzz.auditor import audit
from weft.fuzz.run import run
from weft.fuzz.scenario import Scenario

TRIES_MAX = 60
STEPS_MIN = 2

IsFailing = Callable[[Scenario], bool]


def breaks(invariant: int) -> IsFailing:
    """Whether a scenario breaks this invariant."""
    return lambda scenario: any(found.invariant == invariant for found in audit(run(scenario)))


def shrink(scenario: Scenario, is_failing: IsFailing) -> Scenario:
    """The smallest scenario that was found to fail as well; bounded in tries."""
    num_tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(scenario):
            if num_tries == TRIES_MAX:
                return scenario
            num_tries += 1
            if is_failing(smaller):
                scenario, is_smaller = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with one fault less, then with fewer steps."""
    schedule = scenario.faults.schedule
    for place in range(len(schedule)):
        rest = schedule[:place] + schedule[place + 1 :]
        yield replace(scenario, faults=replace(scenario.faults, schedule=rest))
    for steps in (scenario.num_steps // 2, scenario.num_steps * 3 // 4, scenario.num_steps - 1):
        if STEPS_MIN <= steps < scenario.num_steps:
            yield replace(scenario, num_steps=steps)
