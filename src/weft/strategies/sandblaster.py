"""Sandblaster L-BFGS: a coordinator hands out portions of the full batch, and steps when the whole batch is in."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Compute, Note, Send, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, PortionAsked, Received, Returned, StepFinished
from weft.core.invariants import Invariant, holds
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import LBFGS, Rule
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.coordinator import (
    ASK,
    FETCH,
    HAVE,
    KEPT,
    MOVED,
    PARAMETERS,
    PORTION,
    RESULT,
    RULE,
    SKIPPED,
    SUM,
    Coordinator,
)
from weft.strategies.parts.served import ServedWorker

COMING = "sandblaster.coming"


@dataclass(frozen=True)
class Sandblaster(Strategy):
    """Sandblaster L-BFGS (Dean et al., NIPS 2012, section 4.2).

    In every pass a coordinator hands out the batches of the whole data set, one to each worker that asks; so faster
    workers take more. With `backups`, when none is left, a worker that asks gets a copy of the one that has been out
    longest; the first result counts, the second is dropped. When the whole batch is in, L-BFGS makes one step of
    length `lr` from the last `history` changes of the gradient, and all workers get the parameters of the next pass.
    An epoch is one step, so there must be many; small batches only make it easier to deal. The script's own
    optimizer is not used. A script that does not share its data brings one batch of its own from every worker to
    every pass.

    For data that can be gone through whole for each step, on workers of different or changing speed. Noise in the
    gradient, such as much dropout, misleads L-BFGS.

    A lost worker's portion is handed out again. A coordinator that was moved begins the pass again with the newest
    parameters that a worker has, and has forgotten the curvature. A newcomer gets the parameters from the coordinator,
    and begins with the pass that is under way, by whose number it counts its shares and steps.

    Assumes: channels are FIFO per (source, target); all workers share the same data, in the same order.
    """

    entry = Entry(
        "sandblaster",
        "Sandblaster L-BFGS (Dean et al. 2012)",
        "a coordinator hands out portions of the full batch, faster workers take more; one L-BFGS step per epoch",
    )

    lr: float = 1.0
    history: int = 10
    backups: bool = True

    @property
    def deals_portions(self) -> bool:
        return True

    @property
    def keeps_writes(self) -> bool:
        return False

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def allows_optimizers(self) -> bool:
        return False

    @property
    def result(self) -> Result:
        return Result.SERVERS

    def __post_init__(self) -> None:
        LBFGS(self.lr, self.history)

    def roles(self, num_workers: int) -> Roles:
        return Roles(num_workers, 1)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(COMING),) if role is Role.WORKER else (Slot(SUM),)

    def kinds(self) -> Mapping[str, Carries]:
        words = dict.fromkeys((ASK, PORTION, SKIPPED, MOVED, HAVE, FETCH), Carries.NOTHING)
        return {**words, **dict.fromkeys((RESULT, PARAMETERS, KEPT), Carries.EXACT)}

    def rules(self, world: World) -> Mapping[str, Rule]:
        return {RULE: LBFGS(self.lr, self.history)}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("once.servers_apply_once"),
            holds("once.servers_apply_means"),
            holds("equality.copies_are_versions"),
            holds("portions.are_counted_once"),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"backups": rng.random() < 0.7}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.role(me) is Role.WORKER:
            return SandblasterWorker(me, world, rng)
        return Coordinator(self.backups, me, world, rng)


class SandblasterWorker(ServedWorker):
    """Asks for portions and sends their gradients; a pass is over for it when the next parameters are there."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._coordinator = world.servers[0]
        self.clock = 0
        """The pass that the script is in."""
        self.version = 0
        """The pass whose parameters are here; all before it are over."""
        self.share: int | None = None
        """The script's share that is under way."""
        self.asked: int | None = None
        """Of how many portions the share waits for one."""
        self.portion: int | None = None
        """The one that is computed."""
        self.own: float | None = None
        """The samples of a batch of its own, which waits for its pass to end."""
        self.coming = 0
        """The clock of the parameters that are coming in."""
        self.missing: set[int] = set()
        """Buckets of the next parameters that have not come."""

    def take_bucket(self, into: Buffer, body: Buffer, clock: int) -> Actions:
        if into.bucket in self.world.trainable:
            self.version = clock
        return super().take_bucket(into, body, clock)

    def take_over(self, handed: Data) -> Actions:
        """Begin with the pass that is under way, not with the sponsor's step: portions make those its own."""
        self.clock = self.step = self.version
        return [Compute(self.step)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        portion, self.portion = self.portion, None
        if portion is None:
            if self.share is not None:
                raise ConfigError(
                    "a step was made on no portion of the data, in the midst of a share.\n"
                    "  Make one step for each batch of worker.share(...), and let its loop run to the end."
                )
            self.own = event.samples
            return self._go_on()
        if self.version > self.clock:
            return [Note("dropped", 1.0), Compute(self.step)]
        return [*self._results(event.samples, portion), Compute(self.step)]

    def _results(self, samples: float, portion: int | None) -> Actions:
        data = None if portion is None else {"portion": portion}
        return [
            Send(self._coordinator, RESULT, self.clock, b, self.world.gradient[b], samples, data)
            for b in self.world.trainable
        ]

    def on_portion_asked(self, event: PortionAsked) -> Actions:
        actions: Actions = []
        if self.portion is not None:  # it led to no step
            actions.append(Send(self._coordinator, SKIPPED, self.clock, 0, data={"portion": self.portion}))
            self.portion = None
        if self.share not in (None, event.share):
            raise ConfigError(
                "the script began to share data again before its last share was over, so that pass would never end.\n"
                "  Let every loop over worker.share(...) run to its end."
            )
        self.share, self.asked = event.share, event.num_portions
        return actions + self._go_on()

    def _go_on(self) -> Actions:
        """Do for the script what can be done now, if it waits."""
        if self.asked is None and self.own is None:
            return []
        if self.version > self.clock:
            self.clock += 1
            self.asked = self.own = self.share = None
            return [Compute(self.step)]
        if self.asked is not None:
            return [Send(self._coordinator, ASK, self.clock, 0, data={"portions": self.asked})]
        assert self.own is not None
        return self._results(self.own, None)

    def on_received(self, event: Received) -> Actions:
        if event.kind == PORTION and event.data is not None and event.clock == self.clock and self.asked is not None:
            portion = event.data["portion"]
            assert isinstance(portion, int)
            self.portion, self.asked = portion, None
            return [Compute(self.step, portion)]
        if event.kind == PARAMETERS and event.body is not None and event.clock >= self.version:
            return self._take(event.clock, event.bucket, event.body)
        if event.kind == MOVED:
            self.missing = set()
            return [Send(self._coordinator, HAVE, self.version, 0)]
        if event.kind == FETCH and event.clock == self.version:
            return [Send(self._coordinator, KEPT, self.version, b, self.world.params[b]) for b in self.world.trainable]
        raise self.unexpected(event)

    def _take(self, clock: int, bucket: int, body: Buffer) -> Actions:
        """Parameters count when they are whole: this replica is always one that the coordinator had."""
        if clock != self.coming:
            self.coming, self.missing = clock, set()
        self.missing = (self.missing or set(self.world.trainable)) - {bucket}
        if self.missing:
            return [copy(Buffer(COMING, bucket), body)]
        self.version = clock
        others = [b for b in self.world.trainable if b != bucket]
        actions: Actions = [copy(self.world.params[b], Buffer(COMING, b)) for b in others]
        return [*actions, copy(self.world.params[bucket], body), *self._go_on()]

    def on_returned(self, event: Returned) -> Actions:
        """Send it again; a coordinator that was moved meanwhile knows what to do with it, a newcomer that left is not
        welcomed any more."""
        if event.target not in self.members:
            return []
        return [Send(event.target, event.kind, event.clock, event.bucket, event.body, event.weight, event.data)]

    def waiting_for(self) -> str:
        if self.missing:
            return f"the parameters after pass {self.version} ({len(self.missing)} buckets to go)"
        if self.asked is not None:
            return f"a portion of pass {self.clock}, or its end"
        if self.own is not None:
            return f"the batches of all workers for pass {self.clock}"
        return super().waiting_for()
