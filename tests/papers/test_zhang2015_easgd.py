"""Zhang, Choromanska & LeCun 2015, "Deep learning with elastic averaging SGD"."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.problems import SIZES, Array, LeastSquares, different_starts, fixed_updates, nothing, relative
from support.simulated.weather import MODERATE, SEEDS, storm

from weft.core.rules import SGD, Momentum, Rule
from weft.strategies import EASGD, LocalSGD
from weft.testing.worlds import Ran, simulate_arrays

LR = 0.05


@dataclass(frozen=True)
class Untied(EASGD):
    """No elastic force at all, which users cannot ask for."""

    def __post_init__(self) -> None:
        pass


def run(recipe: EASGD | LocalSGD, num_workers: int, num_steps: int, rule: Rule | None = None, **weather: Any) -> Ran:
    problem = LeastSquares(SIZES[:num_workers])
    return simulate_arrays(
        recipe,
        num_workers,
        problem.gradient,
        num_steps=num_steps,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=rule or SGD(LR),
        **weather,
    )


@pytest.mark.parametrize("alpha", [None, 0.05])
@pytest.mark.parametrize(("num_workers", "period"), [(1, 1), (2, 3), (5, 2)])
def test_workers_and_centre_follow_the_papers_update_rule(num_workers: int, period: int, alpha: float | None) -> None:
    """x_i(t+1) = x_i - η g_i(x_i) - α (x_i - c); c(t+1) = (1 - β) c + β mean(x_i), β = N α."""
    problem = LeastSquares(SIZES[:num_workers])
    force = 0.9 / num_workers if alpha is None else alpha
    centre, replicas = problem.start.copy(), [problem.start.copy() for _ in range(num_workers)]
    for step in range(12):
        exchanges = (step + 1) % period == 0
        before = [w.copy() for w in replicas]
        for worker, w in enumerate(replicas):
            w -= LR * problem.gradient(worker, step, before[worker])
            w -= force * (before[worker] - centre) if exchanges else 0.0
        if exchanges:
            beta = num_workers * force
            centre = (1.0 - beta) * centre + beta * np.mean(before, axis=0)
    ran = run(EASGD(period, alpha), num_workers, 12)
    assert relative(ran.result[0], centre) < 1e-12
    assert all(relative(params[0], w) < 1e-12 for params, w in zip(ran.params, replicas, strict=True))


@pytest.mark.parametrize("rule", [SGD(LR), Momentum(0.02)], ids=repr)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_without_a_force_the_workers_train_independently(mode: str, rule: Rule) -> None:
    alone = run(LocalSGD(period=1000), 4, 20, rule)
    untied = run(Untied(2, 0.0, mode), 4, 20, rule, **storm(4, 1))
    barely = run(EASGD(2, 1e-9, mode), 4, 20, rule, **storm(4, 1))
    for worker in range(4):
        assert np.array_equal(untied.params[worker][0], alone.params[worker][0])
        assert 0.0 < relative(barely.params[worker][0], alone.params[worker][0]) < 1e-7


def total(arrays: list[Array]) -> Array:
    return np.sum(arrays, axis=0)


@MODERATE
@given(num_workers=st.integers(1, 8), period=st.integers(1, 4), servers=st.integers(1, 2), seed=SEEDS)
def test_both_ends_of_the_force_are_equal_so_that_workers_and_centre_keep_their_sum_under_any_delay(
    num_workers: int, period: int, servers: int, seed: int
) -> None:
    starts = different_starts(num_workers, seed % 1000)
    recipe = EASGD(period, mode="async", servers=servers)
    ran = simulate_arrays(recipe, num_workers, nothing, num_steps=20, starts=starts, **storm(num_workers, seed))
    ends = [params[0] for params in ran.params[:num_workers]]
    assert relative(total([*ends, ran.result[0]]), total([*starts, starts[0]])) < 1e-12


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_only_gradients_move_the_sum(mode: str) -> None:
    updates = fixed_updates(5, 20, seed=0)
    start = np.array([1.0, 2.0, 3.0])
    ran = simulate_arrays(
        EASGD(3, mode=mode),
        5,
        lambda worker, step, w: updates[worker, step],
        num_steps=20,
        starts=[start] * 5,
        rule=SGD(LR),
        **storm(5, 2),
    )
    ends = [params[0] for params in ran.params[:5]]
    assert relative(total([*ends, ran.result[0]]), 6 * start - LR * updates.sum(axis=(0, 1))) < 1e-12


def test_a_step_never_waits_for_the_centre() -> None:
    ran = run(EASGD(2, mode="async"), 5, 20, **storm(5, 4))
    assert ran.facts.finished_s == pytest.approx(ran.facts.compute_s, abs=1e-7)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_it_converges_whatever_the_delays(mode: str) -> None:
    problem = LeastSquares(SIZES[:6])
    ran = run(EASGD(4, mode=mode), 6, 200, **storm(6, 1))
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)


def test_one_exchange_draws_workers_and_centre_together() -> None:
    starts = [np.array([value]) for value in (0.0, 4.0, 8.0)]
    ran = simulate_arrays(EASGD(1, 0.25, "async"), 3, nothing, num_steps=1, starts=starts, seed=0)
    ends = [float(params[0][0]) for params in ran.params]
    assert sum(ends) == pytest.approx(12.0)
    assert ends[:3] != [0.0, 4.0, 8.0]
    assert max(ends) - min(ends) < 8.0
