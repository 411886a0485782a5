"""What a server does with a gradient that is late: take it as it is, reject it, damp it, or compensate for its delay.

The age of a push is the number of updates that its bucket had since the answer on which the pusher computed.
"""

from dataclasses import dataclass

from weft.core.actions import Action, Apply, Combine, Note, add, copy
from weft.core.errors import ConfigError
from weft.core.names import PARAMS, Buffer, NodeId, Slot
from weft.core.peer import Actions
from weft.core.world import World

APPLY, REJECT, DAMP, COMPENSATE = "apply", "reject", "damp", "compensate"
WAYS = (APPLY, REJECT, DAMP, COMPENSATE)
COMPENSATION = 0.04

GAP = "late.gap"
SQUARE = "late.square"
CORRECTED = "late.corrected"


@dataclass(frozen=True)
class LateRule:
    """One of the ways, and how far it goes."""

    way: str = APPLY
    max_age: int | None = None
    compensation: float = COMPENSATION

    def check(self, staleness: int | None) -> None:
        """Refuse options that contradict each other."""
        way, max_age, compensation = self.way, self.max_age, self.compensation
        if way not in WAYS:
            raise ConfigError(
                f"late is '{way}', but it is one of {', '.join(WAYS)}.\n  Use 'ssp(late=damp)', or leave 'late' out."
            )
        if staleness == 0 and way != APPLY:
            raise ConfigError(
                f"late is '{way}', but with a staleness of 0 no gradient is ever late.\n"
                f"  Use 'ssp(staleness=3, late={way})', or leave 'late' out."
            )
        if way == REJECT and (max_age is None or max_age < 0):
            raise ConfigError(
                f"late is 'reject' and max_age is {max_age}, but it says how many versions old a gradient may be.\n"
                "  Use 'ssp(late=reject, max_age=4)'."
            )
        if way != REJECT and max_age is not None:
            raise ConfigError(
                f"max_age is {max_age}, but late is '{way}', which rejects nothing.\n"
                f"  Use 'ssp(late=reject, max_age={max_age})', or leave 'max_age' out."
            )
        if compensation < 0:
            raise ConfigError(
                f"compensation is {compensation}, but it cannot be below 0.\n"
                f"  Use 'ssp(late=compensate, compensation={COMPENSATION})'."
            )
        if way != COMPENSATE and compensation != COMPENSATION:
            raise ConfigError(
                f"compensation is {compensation}, but late is '{way}', which compensates nothing.\n"
                f"  Use 'ssp(late=compensate, compensation={compensation})', or leave 'compensation' out."
            )

    def slots(self, world: World) -> tuple[Slot, ...]:
        """A server's memory: to compensate it keeps, for each worker, the parameters on which that one computes."""
        if not self.remembers:
            return ()
        return (Slot(GAP), Slot(SQUARE), Slot(CORRECTED), *(Slot(then(worker, 0).slot) for worker in world.workers))

    @property
    def remembers(self) -> bool:
        """What workers are told must be kept."""
        return self.way == COMPENSATE

    def rejects(self, age: int) -> bool:
        return self.max_age is not None and age > self.max_age

    def update(self, worker: NodeId, gradient: Buffer, params: Buffer, age: int, scale: float) -> Actions:
        """Apply a push of this age, unless it is rejected."""
        if self.way == APPLY:
            return [Apply(gradient, params, scale=scale)]
        noted: Actions = [Note("age", age)]
        if self.rejects(age):
            return [*noted, Note("rejected", 1.0)]
        if self.way == DAMP:
            return [*noted, Apply(gradient, params, scale=scale / max(age, 1))]
        if self.way == COMPENSATE and age:
            noted += compensated(worker, gradient, params, self.compensation)
            gradient = Buffer(CORRECTED, gradient.bucket)
        return [*noted, Apply(gradient, params, scale=scale)]


def then(worker: NodeId, bucket: int) -> Buffer:
    """The bucket on which a worker computes."""
    return Buffer(f"then.{worker}", bucket)


def remember(worker: NodeId, bucket: int) -> Action:
    """Keep a bucket as it is now, which is what the worker is told."""
    return copy(then(worker, bucket), Buffer(PARAMS, bucket))


def compensated(worker: NodeId, gradient: Buffer, params: Buffer, compensation: float) -> Actions:
    """corrected = g + λ g⊙g⊙(now - then): to the first order, what the gradient would be now."""
    bucket = gradient.bucket
    gap, square, corrected = (Buffer(slot, bucket) for slot in (GAP, SQUARE, CORRECTED))
    return [
        copy(gap, params),
        add(gap, then(worker, bucket), -1.0),
        Combine(square, 0.0, gradient, compensation, times=gradient),
        copy(corrected, gradient),
        Combine(corrected, 1.0, square, 1.0, times=gap),
    ]
