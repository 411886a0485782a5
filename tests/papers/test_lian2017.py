"""Lian et al. 2017, "Can Decentralized Algorithms Outperform Centralized Algorithms?": D-PSGD."""

from typing import Any

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, different_starts, nothing, relative
from support.simulated.weather import TOPOLOGIES, fits, storm

from weft.core.errors import ConfigError
from weft.core.rules import SGD, Momentum, Rule
from weft.strategies import AllReduce, Gossip
from weft.testing.worlds import Array, simulate_arrays
from weft.topologies import Complete, Exponential, Mesh, Ring, Star, Topology, Torus
from weft.topologies.weights import mixing

ORDERS = ("overlap", "step_first")
LR = 0.05


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_the_mean_moves_only_by_the_mean_gradient(topology: Topology, order: str) -> None:
    num_workers = 8
    given_out: list[Array] = []
    problem = LeastSquares([3] * num_workers, dim=3)

    def gradient(worker: int, step: int, w: Array) -> Array:
        given_out.append(problem.gradient(worker, step, w))
        return given_out[-1]

    starts = different_starts(num_workers, seed=1)
    ran = simulate_arrays(
        Gossip(topology, order=order),
        num_workers,
        gradient,
        num_steps=12,
        starts=starts,
        rule=SGD(LR),
        **storm(num_workers, 6),
    )
    expected = np.mean(starts, axis=0) - LR * np.sum(given_out, axis=0) / num_workers
    assert relative(np.mean([params[0] for params in ran.params], axis=0), expected) < 1e-12


@pytest.mark.parametrize("topology", [t for t in TOPOLOGIES if t != Complete() and fits(t, 3)], ids=str)
def test_unequal_batches_do_not_bias_the_mean_where_not_everybody_is_heard(topology: Topology) -> None:
    starts = different_starts(8, seed=2)
    recipe = Gossip(topology, order="step_first")
    ran = simulate_arrays(recipe, 8, nothing, num_steps=10, samples=SIZES[:8], starts=starts)
    assert relative(np.mean([params[0] for params in ran.params], axis=0), np.mean(starts, axis=0)) < 1e-12


def test_uniform_weights_on_a_mesh_are_refused_because_they_would_bias_the_mean() -> None:
    squares = [np.array([float(worker**2)]) for worker in range(16)]
    with pytest.raises(ConfigError, match="would bias the mean"):
        simulate_arrays(Gossip(Mesh(4, 4), weights="uniform"), 16, nothing, starts=squares)
    ran = simulate_arrays(Gossip(Mesh(4, 4)), 16, nothing, num_steps=120, starts=squares)
    assert [float(params[0][0]) for params in ran.params] == pytest.approx([77.5] * 16, rel=1e-3)


def matrix_rule(topology: Topology, order: str, starts: list[Array], problem: LeastSquares, num_steps: int) -> Array:
    """W X - η G or W (X - η G), all workers at once; G is taken at X."""
    num_workers = len(starts)
    weights = mixing(topology.graph(num_workers))
    x = np.array(starts)
    for step in range(num_steps):
        g = np.array([problem.gradient(worker, step, x[worker]) for worker in range(num_workers)])
        w = np.array(weights.matrix(step))
        x = w @ x - LR * g if order == "overlap" else w @ (x - LR * g)
    return x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("topology", "num_workers"),
    [
        (Ring(), 5),
        (Ring(), 2),
        (Torus(), 9),
        (Torus(2, 4), 8),
        (Exponential(), 6),
        (Exponential(one_peer=True), 7),
        (Star(), 3),
    ],
    ids=str,
)
def test_every_replica_follows_the_update_rule(topology: Topology, num_workers: int, order: str) -> None:
    problem = LeastSquares([3] * num_workers, dim=3)
    starts = different_starts(num_workers, seed=num_workers)
    ran = simulate_arrays(
        Gossip(topology, order=order),
        num_workers,
        problem.gradient,
        num_steps=15,
        starts=starts,
        rule=SGD(LR),
        **storm(num_workers, 8),
    )
    expected = matrix_rule(topology, order, starts, problem, 15)
    assert relative([params[0] for params in ran.params], expected) < 1e-10


@pytest.mark.parametrize("rule", [SGD(0.1), Momentum(0.05), Momentum(0.05, nesterov=True)], ids=repr)
def test_step_first_on_the_complete_graph_equals_synchronous_sgd_weighted_by_samples(rule: Rule) -> None:
    problem = LeastSquares(SIZES[:5])
    options: dict[str, Any] = {"num_steps": 60, "samples": problem.sizes, "starts": problem.starts(), "rule": rule}
    reduced = simulate_arrays(AllReduce(), 5, problem.gradient, **options)
    recipe = Gossip(Complete(), order="step_first")
    mixed = simulate_arrays(recipe, 5, problem.gradient, **options, **storm(5, 9))
    assert all(relative(params[0], reduced.result[0]) < 1e-9 for params in mixed.params)


def test_parameters_travel_while_the_gradient_is_computed() -> None:
    options: dict[str, Any] = {"num_steps": 20, "starts": [np.zeros(1000)] * 4}
    one_way_s = 1e-3 + 8000 / 1e6
    overlap = simulate_arrays(Gossip(Exponential(one_peer=True)), 4, nothing, **options).facts.virtual_s
    after = simulate_arrays(Gossip(Exponential(one_peer=True), order="step_first"), 4, nothing, **options)
    assert overlap == pytest.approx(20 * 1e-2)
    assert after.facts.virtual_s == pytest.approx(20 * (1e-2 + one_way_s))


@pytest.mark.parametrize("order", ORDERS)
def test_replicas_agree_in_the_end(order: str) -> None:
    ran = simulate_arrays(
        Gossip(Torus(3, 3), order=order), 9, nothing, num_steps=100, starts=different_starts(9, seed=3)
    )
    assert all(relative(params[0], ran.result[0]) < 1e-9 for params in ran.params)
