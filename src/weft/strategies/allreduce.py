"""Synchronous SGD: every gradient is averaged over all workers before it is applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Apply, Compute
from weft.core.events import Data, GradientReady, Reduced, StepFinished
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import GRADIENT, Carries, NodeId
from weft.core.peer import Actions, Peer, number
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.reductions import ReducingPeer


@dataclass(frozen=True)
class AllReduce(Strategy):
    """Synchronous SGD by all-reduce (Goyal et al. 2017).

    g = Σ n_i g_i / Σ n_i, every bucket reduced as backward fills it; all replicas stay equal.
    Buckets that are not trained (BatchNorm's means) are averaged with the step's last gradient.
    A worker that leaves takes only what was not reduced yet: the mean is over those present.
    A newcomer takes over the parameters of the lowest other worker, which are everybody's.
    """

    entry = Entry(
        "allreduce",
        "synchronous SGD (Goyal et al. 2017)",
        "every gradient is averaged over all workers before it is applied",
    )

    @property
    def keeps_replicas_equal(self) -> bool:
        return True

    @property
    def reduces(self) -> bool:
        return True

    @property
    def allows_closures(self) -> bool:
        return True

    @property
    def welcomes(self) -> bool:
        return True

    def kinds(self) -> Mapping[str, Carries]:
        return {"gradient": Carries.GRADIENT, "state": Carries.STATE}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("once.workers_apply_once", Codecs.EXACT),
            holds("once.workers_apply_means"),
            holds("staleness.stays_in_step", Codecs.ANY),
            holds("equality.replicas_are_equal", Codecs.ANY),
            holds("residuals.are_applied_or_kept", Codecs.EXACT),
        )

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return AllReducePeer(me, world, rng)


class AllReducePeer(ReducingPeer):
    """Reduces what backward fills; applies at the end of the step."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.buckets_ready = 0
        self.round = 0
        """Counts reductions, not steps: a skipped step has had its backward, and workers match by order."""
        self.empty: set[int] = set()
        """Buckets for whose gradient nobody had samples: they are not applied."""

    def on_gradient_ready(self, event: GradientReady) -> Actions:
        clock, bucket, samples = self.round, event.bucket, event.samples
        self.empty.discard(bucket)
        actions: Actions = [self.reduce("gradient", clock, self.world.gradient[bucket], samples)]
        self.buckets_ready += 1
        if self.buckets_ready == len(self.world.trainable):
            self.buckets_ready = 0
            self.round += 1
            actions += [
                self.reduce("state", clock, state, samples)
                for bucket, state in enumerate(self.world.params)
                if bucket not in self.world.trainable
            ]
        return actions

    def hand_over(self) -> Data:
        return {**super().hand_over(), "round": self.round}

    def take_over(self, handed: Data) -> Actions:
        self.round = number(handed, "round")
        return super().take_over(handed)

    def on_reduced(self, event: Reduced) -> Actions:
        if not event.weight and event.buffer.slot == GRADIENT:
            self.empty.add(event.buffer.bucket)
        return super().on_reduced(event)

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        world, empty = self.world, self.empty
        actions: Actions = [Apply(world.gradient[b], world.params[b]) for b in world.trainable if b not in empty]
        return [*actions, Compute(self.step)]
