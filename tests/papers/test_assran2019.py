"""Assran et al. 2019, "Stochastic Gradient Push for Distributed Deep Learning": SGP."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.simulated.problems import LeastSquares, different_starts, nothing, relative
from support.simulated.weather import TOPOLOGIES, storm

from weft.core.actions import Send
from weft.core.events import Received
from weft.core.graph import Graph
from weft.core.recorder import node_rng
from weft.core.rules import SGD
from weft.strategies import PushSum
from weft.testing.worlds import Array, Ran, simulate_arrays
from weft.topologies import Exponential, Star, Topology

LR = 0.05


@dataclass(frozen=True)
class OneWay(Topology):
    """A directed cycle with shortcuts, in which places send to, and hear from, different numbers of places."""

    def build(self, num_places: int) -> Graph:
        targets = [{(place + 1) % num_places} for place in range(num_places)]
        targets[0] |= {2 % num_places, 3 % num_places}
        targets[1] |= {num_places - 1}
        return Graph([targets])


GRAPHS = (*TOPOLOGIES, OneWay())


def masses(strategy: PushSum, ran: Ran, seed: int) -> list[float]:
    """Live weight plus weight in flight after every event, by feeding the recorded events to fresh peers."""
    peers: list[Any] = [strategy.peer(node, ran.world, node_rng(seed, node)) for node in range(ran.world.num_nodes)]
    in_flight, totals = 0.0, []
    for now_ns, node, event, _ in ran.recording.entries:
        actions = peers[node].handle(event, now_ns / 1e9)
        in_flight -= event.weight if isinstance(event, Received) else 0.0
        in_flight += sum(action.weight for action in actions if isinstance(action, Send))
        totals.append(in_flight + sum(peer.weight[0] for peer in peers))
    return totals


@pytest.mark.parametrize("topology", GRAPHS, ids=str)
def test_live_and_travelling_mass_is_n_at_every_moment(topology: Topology) -> None:
    recipe = PushSum(topology)
    ran = simulate_arrays(recipe, 8, nothing, num_steps=10, starts=different_starts(8, 0), **storm(8, 2))
    assert masses(recipe, ran, seed=2) == pytest.approx([8.0] * len(ran.recording.entries), rel=1e-12)
    assert sum(ran.peer(node).weight[0] for node in range(8)) == pytest.approx(8.0, rel=1e-12)


@pytest.mark.parametrize("topology", [OneWay(), Exponential(), Exponential(one_peer=True), Star()], ids=str)
def test_every_replica_comes_to_the_true_mean_of_all_starts(topology: Topology) -> None:
    starts = different_starts(8, 4)
    ran = simulate_arrays(PushSum(topology), 8, nothing, num_steps=200, starts=starts, **storm(8, 5))
    assert all(relative(params[0], np.mean(starts, axis=0)) < 1e-6 for params in ran.params)


def test_without_the_weight_an_irregular_graph_would_be_biased() -> None:
    ran = simulate_arrays(PushSum(OneWay()), 8, nothing, num_steps=100, starts=different_starts(8, 4))
    weights = [ran.peer(node).weight[0] for node in range(8)]
    assert max(weights) > 1.3
    assert min(weights) < 0.4


@pytest.mark.parametrize("num_workers", [2, 4, 8, 16])
def test_one_peer_exponential_gives_the_exact_mean_after_log2_n_rounds(num_workers: int) -> None:
    starts = different_starts(num_workers, 1)
    num_rounds = num_workers.bit_length() - 1
    recipe = PushSum(Exponential(one_peer=True))
    ran = simulate_arrays(recipe, num_workers, nothing, num_steps=num_rounds, starts=starts)
    assert all(relative(params[0], np.mean(starts, axis=0)) < 1e-12 for params in ran.params)


@pytest.mark.parametrize("topology", [OneWay(), Exponential(one_peer=True)], ids=str)
def test_every_replica_follows_the_update_rule(topology: Topology) -> None:
    num_workers = 7
    problem = LeastSquares([3] * num_workers, dim=3)
    starts = different_starts(num_workers, 3)
    ran = simulate_arrays(PushSum(topology), num_workers, problem.gradient, num_steps=20, starts=starts, rule=SGD(LR))
    graph = topology.graph(num_workers)
    x, y, z = np.array(starts), np.ones((num_workers, 1)), np.array(starts)
    for step in range(20):
        g = np.array([problem.gradient(worker, step, z[worker]) for worker in range(num_workers)])
        p = pushed(graph, step)
        x, y = p @ (x - LR * g), p @ y
        z = x / y
    assert relative([params[0] for params in ran.params], z) < 1e-10


def pushed(graph: Graph, clock: int) -> Array:
    """P of the paper: column j says how worker j divides its mass."""
    p = np.eye(graph.num_places)
    for source in range(graph.num_places):
        for target in graph.targets(source, clock):
            p[target, source] = 1.0
    return p / p.sum(axis=0)


def test_the_mass_moves_only_by_the_gradients_whatever_the_delays() -> None:
    given_out: list[Array] = []
    problem = LeastSquares([3] * 6, dim=3)

    def gradient(worker: int, step: int, w: Array) -> Array:
        given_out.append(problem.gradient(worker, step, w))
        return given_out[-1]

    starts = different_starts(6, 2)
    ran = simulate_arrays(PushSum(OneWay()), 6, gradient, num_steps=20, starts=starts, rule=SGD(LR), **storm(6, 7))
    total = sum(ran.peer(node).weight[0] * ran.params[node][0] for node in range(6))
    assert relative(total, np.sum(starts, axis=0) - LR * np.sum(given_out, axis=0)) < 1e-12
