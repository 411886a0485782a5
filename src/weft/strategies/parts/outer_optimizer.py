"""An outer optimizer on the averaged parameter change: what DiLoCo and its relatives have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Apply, Compute, add, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, Reduced, Started
from weft.core.names import PARAMS, Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import Momentum, Rule
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.strategies.parts.periodic_average import PeriodicAveragePeer

START = "outer.start"
"""The parameters from which all workers set out after the last average."""
DELTA = "outer.delta"
"""How far a worker has come since, as a gradient points: start - params. Then its mean over the workers."""
OUTER = "outer"
VELOCITY = "outer.velocity"
"""What the rule keeps: a momentum."""


@dataclass(frozen=True)
class OuterStrategy(Strategy):
    """Base of the methods whose average is the gradient of an optimizer of its own.

    Every `period` steps delta = start - params is averaged over the workers, weighted by the samples since
    the last average; `rule` takes a step from `start` with it, and the parameters become `start`. A newcomer sets out
    from `start`, and takes over the outer optimizer's velocity.
    """

    period: int = 8

    @property
    def reduces(self) -> bool:
        return True

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def first_exchange(self) -> int:
        return self.period

    @property
    def result(self) -> Result:
        return Result.MEAN

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(START), Slot(DELTA))

    def kinds(self) -> Mapping[str, Carries]:
        return {"delta": Carries.DELTA, "average": Carries.STATE}

    def rules(self, world: World) -> Mapping[str, Rule]:
        return {OUTER: self.rule(world)}

    def rule(self, world: World) -> Momentum:
        """The outer optimizer."""
        raise NotImplementedError

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return OuterPeer(self.period, me, world, rng)


class OuterPeer(PeriodicAveragePeer):
    """Trains alone from `start`; what the workers' mean has come further is a gradient for `start`.

    Buckets that are not trained (BatchNorm's means) become their mean. A round of no samples changes nothing.
    """

    _inherits = (PARAMS, START, VELOCITY)

    def take_over(self, handed: Data) -> Actions:
        start = [copy(self.world.params[b], Buffer(START, b)) for b in self.world.trainable]
        return [*start, *super().take_over(handed)]

    def on_started(self, event: Started) -> Actions:
        return [*(copy(Buffer(START, b), self.world.params[b]) for b in self.world.trainable), Compute(0)]

    def average(self, clock: int) -> Actions:
        actions: Actions = []
        for bucket, params in enumerate(self.world.params):
            if bucket not in self.world.trainable:
                actions.append(self.reduce("average", clock, params, self.samples))
                continue
            delta = Buffer(DELTA, bucket)
            actions += [
                copy(delta, Buffer(START, bucket)),
                add(delta, params, -1.0),
                self.reduce("delta", clock, delta, self.samples),
            ]
        return actions

    def take(self, event: Reduced) -> Actions:
        delta, bucket = event.buffer, event.buffer.bucket
        if delta.slot != DELTA or not event.weight:
            return []
        start = Buffer(START, bucket)
        return [Apply(delta, start, OUTER), copy(self.world.params[bucket], start)]


def check_momentum(strategy: str, name: str, momentum: float) -> None:
    """Refuse an outer momentum with which old changes would never fade."""
    if not 0.0 <= momentum < 1.0:
        raise ConfigError(
            f"{name} is {momentum}, but it is at least 0 and below 1: the part of the last change that is made again.\n"
            f"  Use '{strategy}({name}=0.5)', or '{strategy}({name}=0)' for none."
        )


def check_rate(strategy: str, name: str, rate: float) -> None:
    """Refuse an outer learning rate that goes nowhere, or back."""
    if not 0.0 < rate < float("inf"):
        raise ConfigError(
            f"{name} is {rate}, but the average is taken in steps above 0.\n"
            f"  Use '{strategy}({name}=1)' for a step as long as the workers' mean change."
        )
