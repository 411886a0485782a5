"""A swarm: in a tournament, every worker's values move on, drawn to where they were best for it and for all."""

from collections.abc import Mapping
from random import Random
from typing import Protocol

from weft.core.actions import Combine, Compute, Note, Send, add, copy
from weft.core.events import Data, Started
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions
from weft.core.score import WORST
from weft.core.world import World
from weft.strategies.parts.tournament import Told, Tournament, TournamentPeer
from weft.strategies.parts.tuned_values import TunedValues

POSITION = "position"
PERSONAL = "population.personal"
LEADER = "population.leader"
VELOCITY = "population.velocity"
"""Slots of which only the bucket of tuned values is used."""


class Swarm(Tournament, Protocol):
    """What a particle needs to know of its strategy."""

    @property
    def inertia(self) -> float: ...

    @property
    def attraction(self) -> float: ...


class SwarmPeer(TournamentPeer):
    """Particle swarm: asks the worker that has seen the best score for the values that it had then."""

    def __init__(self, recipe: Swarm, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe.period, recipe.score, me, world, rng)
        self._recipe = recipe
        self._tuned = TunedValues(world)
        self.best = WORST
        """The best score that this worker has had."""

    def on_started(self, event: Started) -> Actions:
        scattered = self._tuned.scatter(self._recipe.spread, self.rng) if self.me else []
        return [*scattered, copy(self._tuned.whole(PERSONAL), self._tuned.whole()), Compute(0)]

    def take_over(self, handed: Data) -> Actions:
        """A newcomer is a particle that sets out near the values of the worker which welcomed it."""
        begin = super().take_over(handed)
        scattered = self._tuned.scatter(self._recipe.spread, self.rng)
        return [*scattered, copy(self._tuned.whole(PERSONAL), self._tuned.whole()), *begin]

    def enter(self, clock: int) -> tuple[Actions, Told]:
        actions: Actions = []
        if self.score.badness < self.best:
            self.best = self.score.badness
            actions = [copy(self._tuned.whole(PERSONAL), self._tuned.whole())]
        return actions, {"best": self.best}

    def choose(self, told: Mapping[NodeId, Told]) -> NodeId | None:
        leader = min(told, key=lambda worker: (told[worker]["best"], worker))
        return leader if told[leader]["best"] < self.best else None

    def go_on_alone(self) -> Actions:
        return self._move(PERSONAL)

    def wanted(self) -> set[int]:
        return {self._tuned.bucket}

    def answer(self, to: NodeId, clock: int) -> Actions:
        return [Send(to, POSITION, clock, self._tuned.bucket, self._tuned.whole(PERSONAL))]

    def take(self, bucket: int, body: Buffer) -> Actions:
        return [copy(self._tuned.whole(LEADER), body)]

    def make_use(self, source: NodeId) -> Actions:
        return [*self._move(LEADER), Note("followed", source)]

    def _move(self, leader: str) -> Actions:
        """v = inertia v + a (personal - x) + b (leader - x); x += v."""
        actions: Actions = []
        for which in range(self._tuned.num_values):
            to_own, to_leader = (self._recipe.attraction * self.rng.random() for _ in range(2))
            velocity = self._tuned.value(which, VELOCITY)
            actions += [
                Combine(velocity, self._recipe.inertia, self._tuned.value(which, PERSONAL), to_own),
                add(velocity, self._tuned.value(which, leader), to_leader),
                add(velocity, self._tuned.value(which), -to_own - to_leader),
            ]
        return [*actions, add(self._tuned.whole(), self._tuned.whole(VELOCITY))]
