"""Viviani et al. 2019, "Deep Learning at Scale": FAST, its two statements and its elections."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.problems import SIZES, LeastSquares, fixed_updates, nothing, relative
from support.simulated.weather import MODERATE, storm

from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.strategies import AllReduce, Downpour, Neighbours, StaleSync
from weft.testing.worlds import Array, simulate_arrays
from weft.topologies import Complete, Ring, Torus

BROADCAST = Neighbours(Complete(), wait="any", scale="sum", elect=None)
STEPS = 6


WORLDS = {"num_workers": st.integers(1, 8), "seed": st.integers(0, 10_000)}


def rates(num_workers: int) -> list[SGD]:
    """Every worker has a learning rate of its own, which travels with its gradients."""
    return [SGD(0.05 * (1 + worker)) for worker in range(num_workers)]


@MODERATE
@given(**WORLDS)
def test_statement_1_all_replicas_are_equal_once_queues_are_empty(num_workers: int, seed: int) -> None:
    given_out: list[Array] = []
    problem = LeastSquares(SIZES[:num_workers], dim=3, seed=seed)

    def gradient(worker: int, step: int, w: Array) -> Array:
        g = problem.gradient(worker, step, w)
        given_out.append(-0.01 * (1 + worker) * g)
        return g

    ran = simulate_arrays(
        BROADCAST,
        num_workers,
        gradient,
        num_steps=STEPS,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=[SGD(0.01 * (1 + worker)) for worker in range(num_workers)],
        **storm(num_workers, seed),
    )
    everything = problem.start + np.sum(given_out, axis=0)
    assert len(given_out) == num_workers * STEPS
    assert all(relative(params[0], everything) < 1e-9 for params in ran.params)


@MODERATE
@given(**WORLDS)
def test_statement_2_a_server_and_broadcast_are_the_same_list_of_updates(num_workers: int, seed: int) -> None:
    updates = fixed_updates(num_workers, STEPS, seed)

    def end(strategy: Strategy, rules: list[SGD]) -> list[list[Array]]:
        return simulate_arrays(
            strategy,
            num_workers,
            lambda worker, step, w: updates[worker, step],
            num_steps=STEPS,
            starts=[np.ones(3)] * num_workers,
            rule=rules,
            **storm(num_workers, seed),
        ).params

    decentral = end(BROADCAST, rates(num_workers))
    central = end(Downpour(scale="sum"), rates(num_workers))[num_workers]
    asynchronous = end(StaleSync(None), [SGD(rule.lr * num_workers) for rule in rates(num_workers)])[num_workers]
    listed = np.ones(3) - sum(rule.lr * updates[worker].sum(axis=0) for worker, rule in enumerate(rates(num_workers)))
    for params in (*decentral, central, asynchronous):
        assert relative(params[0], listed) < 1e-9


def test_updates_are_never_forwarded() -> None:
    def only_worker_0(worker: int, step: int, w: Array) -> Array:
        return np.ones(1) if worker == 0 else np.zeros(1)

    recipe = Neighbours(Ring(), wait="any", scale="sum", elect=None)
    ran = simulate_arrays(recipe, 6, only_worker_0, num_steps=5, rule=SGD(1.0), **storm(6, 0))
    assert [float(params[0][0]) for params in ran.params] == [-5.0, -5.0, 0.0, 0.0, 0.0, -5.0]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_the_complete_graph_with_wait_all_equals_synchronous_sgd(num_workers: int) -> None:
    problem = LeastSquares(SIZES[:num_workers])
    options: dict[str, Any] = {"num_steps": 60, "samples": problem.sizes, "starts": problem.starts(), "rule": SGD(0.1)}
    reduced = simulate_arrays(AllReduce(), num_workers, problem.gradient, **options)
    recipe = Neighbours(Complete(), wait="all")
    told = simulate_arrays(recipe, num_workers, problem.gradient, **options, **storm(num_workers, 1))
    assert all(relative(params[0], reduced.result[0]) < 1e-9 for params in told.params)


@pytest.mark.parametrize("num_workers", [2, 3, 5])
def test_scale_sum_equals_synchronous_sgd_with_n_times_the_learning_rate(num_workers: int) -> None:
    problem = LeastSquares(SIZES[:num_workers])
    options: dict[str, Any] = {"num_steps": 60, "samples": problem.sizes, "starts": problem.starts()}
    reduced = simulate_arrays(AllReduce(), num_workers, problem.gradient, rule=SGD(0.02 * num_workers), **options)
    recipe = Neighbours(Complete(), wait="all", scale="sum")
    told = simulate_arrays(recipe, num_workers, problem.gradient, rule=SGD(0.02), **options)
    assert all(relative(params[0], reduced.result[0]) < 1e-9 for params in told.params)


@pytest.mark.parametrize("wait", ["all", "any"])
def test_a_torus_converges_without_speaking_to_everybody(wait: str) -> None:
    problem = LeastSquares(SIZES[:9])
    ran = simulate_arrays(
        Neighbours(Torus(3, 3), wait=wait),
        9,
        problem.gradient,
        num_steps=100,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.1),
        epoch_steps=25,
        loss=lambda worker, step, w: problem.loss(w),
        **storm(9, 4),
    )
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)


@MODERATE
@given(num_workers=st.integers(1, 8), seed=st.integers(0, 10_000), wait=st.sampled_from(["all", "any"]))
def test_all_restart_from_the_best_replica(num_workers: int, seed: int, wait: str) -> None:
    scores = np.random.default_rng(seed).permutation(num_workers).astype(float)
    best = int(np.argmin(scores))
    before: dict[int, Array] = {}

    def report(worker: int, epoch: int, w: Array) -> dict[str, float]:
        before[worker] = w.copy()
        return {"loss": scores[worker]}

    ran = simulate_arrays(
        Neighbours(Ring(), wait=wait, elect=2),
        num_workers,
        nothing,
        num_steps=4,
        starts=[np.full(2, float(worker)) for worker in range(num_workers)],
        epoch_steps=2,
        report=report,
        **storm(num_workers, seed),
    )
    assert before[best].tolist() == [best, best]
    assert all(np.array_equal(params[0], before[best]) for params in ran.params)


def test_an_accuracy_wins_when_it_is_high_and_a_loss_when_it_is_low() -> None:
    numbers = {"accuracy": [0.1, 0.9, 0.5], "loss": [0.3, 0.2, 0.1]}
    winners = []
    for name, values in numbers.items():
        ran = simulate_arrays(
            Neighbours(Complete(), score=name),
            3,
            nothing,
            num_steps=1,
            starts=[np.full(1, float(worker)) for worker in range(3)],
            epoch_steps=1,
            report=lambda worker, epoch, w, name=name, values=values: {name: values[worker]},
        )
        winners.append([float(params[0][0]) for params in ran.params])
    assert winners == [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
