"""Daily et al. 2018, "GossipGraD": every update reaches every worker in logarithmic time, one partner at a time."""

import numpy as np
import pytest
from support.oracles.doubly_stochastic import is_doubly_stochastic
from support.simulated.problems import SIZES, LeastSquares, different_starts, nothing, relative
from support.simulated.weather import storm

from weft.core.actions import Send
from weft.core.rules import SGD
from weft.strategies import GossipGrad
from weft.testing.worlds import Array, simulate_arrays
from weft.topologies.weights import mixing

LR = 0.05
POWERS = (1, 2, 4, 8, 16)
WORLDS = [("dissemination", n) for n in range(1, 18)] + [("hypercube", n) for n in POWERS]
every_world = pytest.mark.parametrize(("schedule", "num_workers"), WORLDS)


def num_rounds(num_workers: int) -> int:
    """ceil(log2 N)."""
    return (num_workers - 1).bit_length()


@every_world
def test_every_update_has_reached_every_worker_after_log2_n_rounds(schedule: str, num_workers: int) -> None:
    """Worker i's only gradient marks element i; whoever has heard of it has moved there."""

    def gradient(worker: int, step: int, w: Array) -> Array:
        return np.eye(num_workers)[worker] * (step == 0)

    starts = [np.zeros(num_workers)] * num_workers
    ran = simulate_arrays(
        GossipGrad(schedule),
        num_workers,
        gradient,
        num_steps=max(1, num_rounds(num_workers)),
        starts=starts,
        **storm(num_workers, 3),
    )
    assert all((params[0] != 0.0).all() for params in ran.params)


@every_world
def test_so_it_is_after_every_shuffle(schedule: str, num_workers: int) -> None:
    graph, length = GossipGrad(schedule, seed=7).graph(num_workers), num_rounds(num_workers)
    for first in range(0, graph.num_rounds, max(1, length)):
        heard = [{place} for place in range(num_workers)]
        for clock in range(first, first + length):
            heard = [
                heard[place].union(*(heard[source] for source in graph.sources(place, clock)))
                for place in range(num_workers)
            ]
        assert heard == [set(range(num_workers))] * num_workers


@every_world
def test_every_round_is_doubly_stochastic(schedule: str, num_workers: int) -> None:
    weights = mixing(GossipGrad(schedule, seed=7).graph(num_workers))
    assert all(is_doubly_stochastic(weights.matrix(clock)) for clock in range(weights.graph.num_rounds))


@pytest.mark.parametrize(("schedule", "num_workers"), [("dissemination", 7), ("hypercube", 8)])
def test_the_mean_moves_only_by_the_mean_gradient_whatever_the_samples(schedule: str, num_workers: int) -> None:
    given_out: list[Array] = []
    problem = LeastSquares(SIZES[:num_workers], dim=3)

    def gradient(worker: int, step: int, w: Array) -> Array:
        given_out.append(problem.gradient(worker, step, w))
        return given_out[-1]

    starts = different_starts(num_workers, seed=1)
    ran = simulate_arrays(
        GossipGrad(schedule),
        num_workers,
        gradient,
        num_steps=20,
        samples=problem.sizes,
        starts=starts,
        rule=SGD(LR),
        **storm(num_workers, 6),
    )
    expected = np.mean(starts, axis=0) - LR * np.sum(given_out, axis=0) / num_workers
    assert relative(np.mean([params[0] for params in ran.params], axis=0), expected) < 1e-12


@pytest.mark.parametrize("num_workers", POWERS)
def test_a_power_of_two_has_the_exact_mean_after_log2_n_rounds(num_workers: int) -> None:
    starts = different_starts(num_workers, 1)
    steps = max(1, num_rounds(num_workers))
    ran = simulate_arrays(GossipGrad(), num_workers, nothing, num_steps=steps, starts=starts)
    assert all(relative(params[0], np.mean(starts, axis=0)) < 1e-12 for params in ran.params)


def test_a_step_costs_one_message_for_each_worker() -> None:
    ran = simulate_arrays(GossipGrad(), 16, nothing, num_steps=10)
    sends = [action for _, _, _, actions in ran.recording.entries for action in actions if isinstance(action, Send)]
    assert len(sends) == 16 * 10
