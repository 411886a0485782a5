"""Breeding: in a contest, a worker that is chosen to go copies a better one's parameters and changes its values."""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

from weft.core.actions import Compute, Note, Send, copy
from weft.core.events import Started
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions
from weft.core.world import World
from weft.strategies.contest import ContestPeer, Told
from weft.strategies.tuned import TunedValues

if TYPE_CHECKING:
    from weft.strategies.population import Population

COPY = "copy"
KEPT = ("population.even", "population.odd")
"""Slots for the replicas that got the scores of even and of odd contests: what is copied is what was compared.

Others may still ask for a contest's replica until all have told their scores of the next one, and not any longer.
"""


class BreedingPeer(ContestPeer):
    """Copies everything of the worker that was chosen; how one is chosen, and what is changed then, is its method's.

    A copy waits in the slot of the next contest until it is whole.
    """

    def __init__(self, recipe: "Population", me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe.period, recipe.score, me, world, rng)
        self._recipe = recipe
        self._tuned = TunedValues(world)

    def on_started(self, event: Started) -> Actions:
        scattered = self._tuned.scatter(self._recipe.spread, self.rng) if self.me else []
        return [*scattered, Compute(0)]

    def num_leaving(self, num_members: int) -> int:
        """How many give way in one contest: their share, at least one, at most half."""
        return min(max(1, round(self._recipe.fraction * num_members)), num_members // 2)

    def kept(self, clock: int, bucket: int) -> Buffer:
        """Where the contest of an epoch has its replica."""
        return Buffer(KEPT[(clock + 1) // self._period % 2], bucket)

    def arrived(self, bucket: int) -> Buffer:
        assert self.clock is not None
        return self.kept(self.clock + self._period, bucket)

    def enter(self, clock: int) -> tuple[Actions, Told]:
        return [copy(self.kept(clock, bucket), mine) for bucket, mine in enumerate(self.world.params)], {}

    def wanted(self) -> set[int]:
        return set(range(len(self.world.buckets)))

    def answer(self, to: NodeId, clock: int) -> Actions:
        buckets = range(len(self.world.buckets))
        return [Send(to, COPY, clock, bucket, self.kept(clock, bucket)) for bucket in buckets]

    def take(self, bucket: int, body: Buffer) -> Actions:
        return [copy(self.arrived(bucket), body)]

    def make_use(self, source: NodeId) -> Actions:
        copied = [copy(mine, self.arrived(bucket)) for bucket, mine in enumerate(self.world.params)]
        return [*copied, *self.change(), Note("copied", source)]

    def change(self) -> Actions:
        """Perturb what was copied."""
        raise NotImplementedError


class TruncatingPeer(BreedingPeer):
    """Population-based training: the worst copy one of the best and perturb every value."""

    def choose(self, told: Mapping[NodeId, Told]) -> NodeId | None:
        ranked = sorted(told, key=lambda worker: (told[worker]["badness"], worker))
        number = self.num_leaving(len(ranked))
        if self.me not in ranked[len(ranked) - number :]:
            return None
        better = [worker for worker in ranked[:number] if told[worker]["badness"] < told[self.me]["badness"]]
        return self.rng.choice(better) if better else None

    def change(self) -> Actions:
        values = range(self._tuned.num_values)
        return [self._tuned.perturb(which, self._recipe.perturb, self.rng) for which in values]


class AgingPeer(BreedingPeer):
    """Regularized evolution: the oldest copy the best of a random sample and perturb one value."""

    def __init__(self, recipe: "Population", me: NodeId, world: World, rng: Random) -> None:
        super().__init__(recipe, me, world, rng)
        self.born = -1.0
        """The epoch of the contest in which this worker's model began."""

    def enter(self, clock: int) -> tuple[Actions, Told]:
        actions, _ = super().enter(clock)
        return actions, {"born": self.born}

    def choose(self, told: Mapping[NodeId, Told]) -> NodeId | None:
        oldest = sorted(told, key=lambda worker: (told[worker]["born"], -told[worker]["badness"], worker))
        if self.me not in oldest[: self.num_leaving(len(oldest))]:
            return None
        assert self.clock is not None
        self.born = float(self.clock)
        others = sorted(set(told) - {self.me})
        drawn = self.rng.sample(others, min(self._recipe.sample, len(others)))
        parent = min(drawn, key=lambda worker: (told[worker]["badness"], worker))
        return parent if told[parent]["badness"] < told[self.me]["badness"] else None

    def change(self) -> Actions:
        which = self.rng.randrange(self._tuned.num_values)
        return [self._tuned.perturb(which, self._recipe.perturb, self.rng)]
