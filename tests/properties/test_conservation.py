"""With a learning rate of 0, mixing neither makes nor loses anything, in any weather."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.problems import LeastSquares, different_starts, relative
from support.simulated.weather import MODERATE, SEEDS, places, storm

from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.strategies import AsyncGossip, Gossip, PushSum
from weft.testing.worlds import Ran, simulate_arrays
from weft.topologies import Topology
from weft.topologies.weights import mixing

STEPS = 6


def mixed(strategy: Strategy, num_workers: int, seed: int) -> tuple[Ran, np.ndarray]:
    """A run whose gradients are not zero but whose learning rate is, and the starts."""
    starts = different_starts(num_workers, seed)
    problem = LeastSquares([2] * num_workers, dim=3, seed=seed)
    ran = simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=STEPS,
        starts=starts,
        rule=SGD(0.0),
        **storm(num_workers, seed),
    )
    return ran, np.array(starts)


@MODERATE
@given(place=places(), order=st.sampled_from(["overlap", "step_first"]), seed=SEEDS)
def test_gossip_conserves_the_total(place: tuple[Topology, int], order: str, seed: int) -> None:
    topology, num_workers = place
    ran, starts = mixed(Gossip(topology, order=order), num_workers, seed)
    assert relative(sum(params[0] for params in ran.params), starts.sum(axis=0)) < 1e-12


@MODERATE
@given(place=places(), seed=SEEDS)
def test_gossip_multiplies_by_its_matrices_however_far_neighbours_are_ahead(
    place: tuple[Topology, int], seed: int
) -> None:
    topology, num_workers = place
    ran, x = mixed(Gossip(topology), num_workers, seed)
    weights = mixing(topology.graph(num_workers))
    for step in range(STEPS):
        x = np.array(weights.matrix(step)) @ x
    assert relative([params[0] for params in ran.params], x) < 1e-12


@pytest.mark.slow
@MODERATE
@given(place=places(), seed=SEEDS)
def test_async_gossip_conserves_the_total_once_no_message_is_under_way(place: tuple[Topology, int], seed: int) -> None:
    topology, num_workers = place
    ran, starts = mixed(AsyncGossip(topology), num_workers, seed)
    assert relative(sum(params[0] for params in ran.params), starts.sum(axis=0)) < 1e-12


@MODERATE
@given(place=places(), seed=SEEDS)
def test_push_sum_conserves_its_mass(place: tuple[Topology, int], seed: int) -> None:
    topology, num_workers = place
    ran, starts = mixed(PushSum(topology), num_workers, seed)
    weights = [ran.peer(worker).weight[0] for worker in range(num_workers)]
    assert relative(sum(weights), num_workers) < 1e-12
    total = sum(weight * params[0] for weight, params in zip(weights, ran.params, strict=True))
    assert relative(total, starts.sum(axis=0)) < 1e-12
