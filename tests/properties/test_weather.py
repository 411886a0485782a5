"""What waits for all its partners does not depend on the weather; what does not wait always comes to the end."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.problems import SIZES, LeastSquares, relative
from support.simulated.weather import FEW, MODERATE, SEEDS, places, storm

from weft.core.rules import Momentum
from weft.core.strategy import Strategy
from weft.strategies import AllReduce, Gossip, LocalSGD, Neighbours, ParameterServer
from weft.testing.worlds import Array, simulate_arrays
from weft.topologies import Topology

STEPS = 8


def end(strategy: Strategy, num_workers: int, **weather: Any) -> list[Array]:
    problem = LeastSquares(SIZES[:num_workers], dim=3)
    ran = simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=STEPS,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=Momentum(0.02),
        epoch_steps=4,
        loss=lambda worker, step, w: problem.loss(w),
        **weather,
    )
    return [params[0] for params in ran.params]


@pytest.mark.slow
@MODERATE
@given(place=places(), which=st.integers(0, 2), seed=SEEDS)
def test_neighbours_that_wait_for_each_other_end_alike(place: tuple[Topology, int], which: int, seed: int) -> None:
    topology, num_workers = place
    recipes = (Neighbours(topology), Gossip(topology), Gossip(topology, order="step_first"))
    calm, stormy = (end(recipes[which], num_workers, **weather) for weather in ({}, storm(num_workers, seed)))
    assert relative(stormy, calm) < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [ParameterServer(servers=2), LocalSGD(period=3)], ids=repr)
@FEW
@given(num_workers=st.integers(1, 16), seed=SEEDS)
def test_workers_that_wait_for_all_end_alike(recipe: Strategy, num_workers: int, seed: int) -> None:
    calm, stormy = end(recipe, num_workers), end(recipe, num_workers, **storm(num_workers, seed))
    assert relative(stormy, calm) < 1e-11


@FEW
@given(num_workers=st.integers(1, 16), seed=SEEDS)
def test_native_reductions_end_alike_to_the_last_bit(num_workers: int, seed: int) -> None:
    calm, stormy = end(AllReduce(), num_workers), end(AllReduce(), num_workers, **storm(num_workers, seed))
    assert np.array_equal(calm, stormy)
