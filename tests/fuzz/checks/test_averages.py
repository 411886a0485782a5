"""2. Averages by samples, and the known answers of outer rules."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.fuzz.auditor import audit
from weft.fuzz.checks.averages import Outer, rounds_count_by_samples
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import Scenario, draw
from weft.sim.faults.plan import Faults, NonFiniteGradient

Recursion = Callable[[list[float]], float]


def nesterov(changes: list[float]) -> float:
    """DiLoCo: the outer gradient is minus the change; PyTorch's Nesterov momentum."""
    place = velocity = 0.0
    for change in changes:
        gradient = -change
        velocity = 0.8 * velocity + gradient
        place -= 0.7 * (gradient + 0.8 * velocity)
    return place


def momentum(changes: list[float]) -> float:
    """SlowMo with a constant learning rate of 0.1 (algorithm 1, lines 7 and 8)."""
    place = u = 0.0
    for change in changes:
        u = 0.5 * u - change / 0.1
        place -= 2.0 * 0.1 * u
    return place


def block_momentum(changes: list[float]) -> float:
    """BMUF (equations 4 to 7) with Nesterov's: blocks set out at W + eta D."""
    model = filtered = ahead = 0.0
    for change in changes:
        mean = ahead + change
        filtered = 0.75 * filtered + 1.5 * (mean - ahead)
        model += filtered
        ahead = model + 0.75 * filtered
    return ahead


@pytest.mark.parametrize(
    ("outer", "recursion"),
    [
        (Outer(), sum),
        (Outer(0.7, 0.8, is_ahead=True), nesterov),
        (Outer(2.0, 0.5), momentum),
        (Outer(1.5, 0.75, is_ahead=True), block_momentum),
    ],
    ids=["local_sgd", "diloco", "slowmo", "bmuf"],
)
def test_the_known_answers_are_those_of_the_papers(outer: Outer, recursion: Recursion) -> None:
    for age in range(6):
        assert float(outer.grown(np.array([age]))[0]) == pytest.approx(recursion([1.0] + [0.0] * age))


def scenario(strategy: str, *faults: NonFiniteGradient) -> Scenario:
    drawn = next(s for s in (draw(seed, (strategy,)) for seed in range(99)) if s.num_workers == 3)
    return replace(drawn, num_steps=9, faults=Faults(faults), collective=None, compress=None, scheme=None)


@pytest.fixture
def evidence() -> Evidence:
    return run(scenario("local_sgd(period=2)"))


def found(evidence: Evidence, *outer: Any) -> list[str]:
    return [violation.what for violation in rounds_count_by_samples(evidence, 2, *outer)]


def test_samples_are_unequal_over_workers_and_steps() -> None:
    samples = np.array(draw(0, ("local_sgd",)).samples)
    assert samples.min() > 0
    assert len(set(samples.sum(axis=0))) > 3
    assert len(set(samples.sum(axis=1))) > 1


def test_an_average_by_samples_is_found_clean(evidence: Evidence) -> None:
    assert found(evidence) == []


@pytest.mark.parametrize(
    "strategy", ["diloco(period=2)", "diloco(period=2, outer=momentum)", "bmuf(period=2)", "slowmo(period=2)"]
)
def test_outer_rules_are_found_clean_whatever_is_not_a_number(strategy: str) -> None:
    nobody = [NonFiniteGradient(worker, step) for worker in range(3) for step in (4, 5)]
    assert audit(run(scenario(strategy, NonFiniteGradient(1, 2), *nobody))) == []


def test_other_weights_than_those_of_the_samples_are_found(evidence: Evidence) -> None:
    book = evidence.scenario.book
    samples = np.array(evidence.scenario.samples)[:3, :2].sum(axis=1)
    first = next(s for s in evidence.sightings if s.step == 2 and s.worker == 0)
    for worker in range(3):
        first.params[0][[book.place(worker, step) for step in (0, 1)]] = 1 / 3
    place = max(range(3), key=lambda worker: abs(samples[worker] / samples.sum() - 1 / 3))
    expected = samples[place] / samples.sum()
    assert found(evidence) == [
        f"worker 0, bucket 0: after round 0 step 0 of worker {place} has weight 0.333333333 rather than {expected:.9g}"
    ]


def test_own_steps_that_do_not_count_are_found(evidence: Evidence) -> None:
    for sighting in evidence.sightings:
        sighting.params[0][1:] = 0.0
    assert found(evidence) == ["worker 0, bucket 0: nothing of its own steps counts after round 0"]


def test_another_outer_rule_is_found(evidence: Evidence) -> None:
    assert "worker 0, bucket 0: after round 0 step" in found(evidence, *Outer(0.7, 0.8, is_ahead=True))[0]
