"""Ruch: gradients that are too stale are rejected rather than applied."""

from collections.abc import Iterator

import pytest
from support.simulated.problems import SIZES, LeastSquares
from support.simulated.weather import storm

from weft.core.actions import Apply, Note
from weft.core.events import Received
from weft.core.rules import SGD
from weft.strategies import AsyncSGD
from weft.testing.worlds import Ran, simulate_arrays


def run(max_age: int, seed: int = 3) -> Ran:
    problem = LeastSquares(SIZES[:6])
    return simulate_arrays(
        AsyncSGD(late="reject", max_age=max_age),
        6,
        problem.gradient,
        num_steps=60,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.3),
        **storm(6, seed),
    )


def ages(ran: Ran) -> Iterator[tuple[int, bool]]:
    """How old each push was, counted from the messages alone, and whether it was applied."""
    num_updates, seen = 0, dict.fromkeys(ran.world.workers, 0)
    for _, node, event, actions in ran.recording.entries:
        if node in ran.world.servers and isinstance(event, Received):
            is_applied = any(isinstance(action, Apply) for action in actions)
            yield num_updates - seen[event.source], is_applied
            num_updates += is_applied
            seen[event.source] = num_updates


@pytest.mark.parametrize("max_age", [0, 2, 5])
def test_no_gradient_older_than_the_greatest_age_is_applied_and_every_younger_one_is(max_age: int) -> None:
    told = list(ages(run(max_age)))
    assert {is_applied for _, is_applied in told} == {True, False}
    assert all(is_applied == (age <= max_age) for age, is_applied in told)


def test_what_was_rejected_is_counted() -> None:
    ran = run(2)
    noted = [action.name for entry in ran.recording.entries for action in entry[3] if isinstance(action, Note)]
    assert noted.count("rejected") == sum(not is_applied for _, is_applied in ages(ran))
    assert noted.count("age") == len(list(ages(ran)))


def test_it_converges_on_what_it_takes() -> None:
    problem = LeastSquares(SIZES[:6])
    assert problem.loss(run(5).result[0]) < 0.05 * problem.loss(problem.start)
