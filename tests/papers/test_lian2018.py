"""Lian et al. 2018, "Asynchronous Decentralized Parallel SGD": AD-PSGD, and why its naive form drifts."""

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from support.simulated.problems import SIZES, LeastSquares, different_starts, nothing, relative
from support.simulated.weather import TOPOLOGIES, storm

from weft.core.actions import Combine, Send
from weft.core.events import Received, StepFinished
from weft.core.names import NodeId
from weft.core.peer import Actions, Peer
from weft.core.rules import SGD
from weft.core.world import World
from weft.strategies import AsyncGossip
from weft.strategies.async_gossip import ANSWER, OFFER, AsyncGossipPeer
from weft.testing.worlds import simulate_arrays
from weft.topologies import Complete, Ring, Topology


@dataclass(frozen=True)
class Naive(AsyncGossip):
    """Half-and-half of stale copies: both sides average what they hold with what the other held."""

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return NaivePeer(self.topology, self.period, me, world, rng)


class NaivePeer(AsyncGossipPeer):
    """Answers with its own old value instead of the difference."""

    def on_received(self, event: Received) -> Actions:
        mine = self.world.params[event.bucket]
        self.unanswered -= event.kind == ANSWER
        answer = [Send(event.source, ANSWER, event.clock, event.bucket, mine)] if event.kind == OFFER else []
        return [*answer, Combine(mine, 0.5, event.body, 0.5)]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=str)
def test_the_total_is_conserved_under_any_delays(topology: Topology) -> None:
    starts = different_starts(8, 0)
    ran = simulate_arrays(AsyncGossip(topology), 8, nothing, num_steps=20, starts=starts, **storm(8, 0))
    assert relative(np.sum([params[0] for params in ran.params], axis=0), np.sum(starts, axis=0)) < 1e-12
    assert sum(ran.peer(worker).unanswered for worker in range(8)) == 0


def test_the_naive_half_and_half_of_stale_copies_drifts() -> None:
    drifts: dict[type, list[float]] = {AsyncGossip: [], Naive: []}
    for recipe, found in drifts.items():
        for seed in range(5):
            starts = different_starts(8, seed)
            ran = simulate_arrays(recipe(Complete()), 8, nothing, num_steps=20, starts=starts, **storm(8, seed))
            found.append(relative(np.sum([params[0] for params in ran.params], axis=0), np.sum(starts, axis=0)))
    assert max(drifts[AsyncGossip]) < 1e-12
    assert min(drifts[Naive]) > 1e-3


def test_a_step_never_waits() -> None:
    weather = storm(6, 3)
    ran = simulate_arrays(AsyncGossip(Ring()), 6, nothing, num_steps=20, starts=different_starts(6, 0), **weather)
    assert ran.facts.finished_s == pytest.approx(ran.facts.compute_s, abs=1e-7)


def test_at_most_one_own_offer_is_open() -> None:
    ran = simulate_arrays(AsyncGossip(), 6, nothing, num_steps=20, starts=different_starts(6, 0), **storm(6, 3))
    still_open, offered = [0] * 6, 0
    for _, node, event, actions in ran.recording.entries:
        if isinstance(event, Received) and event.kind == ANSWER:
            still_open[node] -= 1
        offers = sum(isinstance(action, Send) and action.kind == OFFER for action in actions)
        assert offers == 0 or isinstance(event, StepFinished)
        still_open[node] += offers
        offered += offers
        assert max(still_open) <= 1
    assert offered > 6
    assert still_open == [0] * 6


def test_replicas_approach_their_mean() -> None:
    starts = different_starts(8, 1)
    ran = simulate_arrays(AsyncGossip(Complete()), 8, nothing, num_steps=200, starts=starts)
    assert all(relative(params[0], np.mean(starts, axis=0)) < 1e-6 for params in ran.params)


def test_it_converges_whatever_the_delays() -> None:
    problem = LeastSquares(SIZES[:6])
    ran = simulate_arrays(
        AsyncGossip(Ring()),
        6,
        problem.gradient,
        num_steps=200,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=SGD(0.05),
        **storm(6, 1),
    )
    assert problem.loss(ran.result[0]) < 0.05 * problem.loss(problem.start)
