"""Downpour SGD: local steps, gradients pushed and parameters fetched every few of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import INNER, Apply, Compute, Note, Send, SetTimer, add, copy, rescale
from weft.core.errors import ConfigError
from weft.core.events import Data, MembersChanged, Received, Returned, Started, StepFinished, TimerFired
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer
from weft.core.rules import Rule
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.served import ServedWorker
from weft.strategies.parts.shards import (
    ANSWER,
    ASK,
    COPY,
    KINDS,
    PUSH,
    ShardServer,
    check_servers,
    lost_updates,
)

FETCH = "fetch"
ACCRUED = "downpour.accrued"
FETCHED = "downpour.fetched"
SERVER_RULE = "server"


@dataclass(frozen=True)
class Downpour(Strategy):
    """Downpour SGD (Dean et al., NIPS 2012, section 4.1).

    A worker steps alone, pushes its accrued gradient every `push` steps and fetches the parameters
    every `fetch` steps; it waits for its own fetch, never for another worker. Each bucket's server
    updates independently, with the user's optimizer or with `server` (the paper: adagrad(lr=...)).
    scale='mean' divides the server's learning rate by the workers' number, 'sum' (the paper) does not.
    A newcomer sets out from the servers' parameters, as if it had just fetched them.

    Assumes: channels are FIFO per (source, target), so a fetch sees the push before it.
    """

    entry = Entry(
        "downpour",
        "Downpour SGD (Dean et al. 2012)",
        "local steps; gradients pushed and parameters fetched every few",
    )

    push: int = 1
    fetch: int = 1
    servers: int = 1
    server: Rule | None = None
    scale: str = "mean"

    @property
    def keeps_step(self) -> bool:
        return False

    @property
    def keeps_writes(self) -> bool:
        return False

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def first_exchange(self) -> int:
        """The first push: until then all fetch what they began with."""
        return self.push

    @property
    def result(self) -> Result:
        return Result.SERVERS

    def __post_init__(self) -> None:
        check_servers("downpour", self.servers)
        for name in ("push", "fetch"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}, but it counts steps.\n  Use 'downpour({name}=1)' for every step."
                )
        if self.scale not in ("mean", "sum"):
            raise ConfigError(f"scale is '{self.scale}', but it is 'mean' or 'sum'.\n  Use 'downpour(scale=mean)'.")

    def roles(self, num_workers: int) -> Roles:
        return Roles(num_workers, self.servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(ACCRUED), Slot(FETCHED)) if role is Role.WORKER else ()

    def kinds(self) -> Mapping[str, Carries]:
        return {FETCH: Carries.NOTHING, **KINDS}

    def rules(self, world: World) -> Mapping[str, Rule]:
        return {} if self.server is None else {SERVER_RULE: self.server}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("once.servers_apply_once", Codecs.EXACT),
            holds("equality.copies_are_versions", period=self.fetch),
            holds("conservation.accrued_is_sent_once", slot=ACCRUED, kind=PUSH),
            holds("residuals.are_applied_or_kept", Codecs.EXACT, accrued=ACCRUED),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"push": rng.randint(1, 3), "fetch": rng.randint(1, 3), "servers": rng.randint(1, 2)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        if world.role(me) is Role.WORKER:
            return DownpourWorker(self, me, world, rng)
        return DownpourServer(self, me, world, rng)


class DownpourWorker(ServedWorker):
    """Steps alone between its pushes and fetches."""

    def __init__(self, recipe: Downpour, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._recipe = recipe
        self.samples = 0.0
        self.missing: set[int] = set()
        """The buckets that were fetched and have not come."""
        self.versions = dict.fromkeys(world.trainable, 0)
        """The version of each bucket that it last fetched."""

    def on_started(self, event: Started) -> Actions:
        return [*(copy(Buffer(FETCHED, b), self.world.params[b]) for b in self.world.trainable), Compute(0)]

    def take_bucket(self, into: Buffer, body: Buffer, clock: int) -> Actions:
        actions = super().take_bucket(into, body, clock)
        if into.bucket not in self.versions:
            return actions
        self.versions[into.bucket] = clock
        return [*actions, copy(Buffer(FETCHED, into.bucket), body)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.samples += event.samples
        trained = self.world.trainable
        actions: Actions = []
        if event.samples:
            actions += [add(Buffer(ACCRUED, b), self.world.gradient[b]) for b in trained]
            actions += apply_gradient(self.world)
        if self.step % self._recipe.push == 0:
            for b in trained:
                accrued = Buffer(ACCRUED, b)
                actions += [
                    Send(self.world.server_of(b), PUSH, event.step, b, accrued, self.samples),
                    rescale(accrued, 0.0),
                ]
            self.samples = 0.0
        if self.step % self._recipe.fetch:
            return [*actions, Compute(self.step)]
        self.missing = set(trained)
        return actions + self._fetch()

    def _fetch(self) -> Actions:
        return [Send(self.world.server_of(b), FETCH, self.step, b) for b in sorted(self.missing)]

    def on_received(self, event: Received) -> Actions:
        bucket = event.bucket
        if event.kind == ASK:
            return [
                Send(event.source, COPY, self.versions[b], b, Buffer(FETCHED, b))
                for b in self.world.buckets_of(event.source)
            ]
        if event.kind != ANSWER or event.body is None or bucket not in self.missing:
            raise self.unexpected(event)
        self.missing.remove(bucket)
        self.versions[bucket] = event.clock
        actions: Actions = [
            copy(self.world.params[bucket], event.body),
            copy(Buffer(FETCHED, bucket), event.body),
        ]
        return actions if self.missing else [*actions, Compute(self.step)]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """Fetch again, after the pushes that come back have been sent again: a fetch sees the push before it."""
        return [SetTimer(FETCH, self.now)] if self.missing else []

    def on_timer_fired(self, event: TimerFired) -> Actions:
        return self._fetch()

    def on_returned(self, event: Returned) -> Actions:
        """A push that did not arrive is pushed again, in whatever view; a fetch is by then."""
        if event.kind == PUSH and event.view != self.view:
            return [Send(event.target, PUSH, event.clock, event.bucket, event.body, event.weight)]
        return super().on_returned(event)

    def waiting_for(self) -> str:
        if self.missing:
            return f"the parameters it fetched before step {self.step} ({len(self.missing)} buckets to go)"
        return super().waiting_for()


class DownpourServer(ShardServer):
    """Applies every push as it comes and answers every fetch at once."""

    def __init__(self, recipe: Downpour, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._rule = INNER if recipe.server is None else SERVER_RULE
        self._sum = recipe.scale == "sum"
        self.fetched = {b: [0] * world.num_workers for b in self._mine}
        """The version that each worker last fetched."""
        self.samples: dict[NodeId, float] = {}
        """What each worker pushed last."""

    def on_other(self, event: Received) -> Actions:
        bucket, worker = event.bucket, event.source
        if event.kind != FETCH or bucket not in self.versions:
            raise self.unexpected(event)
        if self.is_empty:
            self.aside.add((worker, bucket))
            return []
        return self._answer(worker, bucket)

    def _answer(self, worker: NodeId, bucket: int) -> Actions:
        self.fetched[bucket][worker] = self.versions[bucket]
        return [self.answer(worker, bucket)]

    def on_push(self, event: Received) -> Actions:
        assert event.body is not None
        bucket, worker = event.bucket, event.source
        age = self.versions[bucket] - self.fetched[bucket][worker]
        self.versions[bucket] += 1
        self.samples[worker] = event.weight
        scale = self._share(event.weight)
        return [Note("staleness", age), Apply(event.body, self.world.params[bucket], self._rule, scale)]

    def _share(self, weight: float) -> float:
        """This push's share of the samples that all workers push, by each worker's latest push."""
        mean = sum(self.samples.values()) / len(self.samples)
        if not mean:
            return 0.0
        return weight / mean if self._sum else weight / (mean * len(self.workers))

    def regroup(self) -> Actions:
        self.samples = {worker: samples for worker, samples in self.samples.items() if worker in self.workers}
        return []

    def enter(self, newcomer: NodeId, bucket: int, sponsor: NodeId) -> Actions:
        self.fetched[bucket][newcomer] = self.versions[bucket]
        return []

    def put_aside(self, event: Received) -> Actions:
        """A push that comes before the copies cannot be applied; nobody keeps it."""
        return lost_updates(1.0)

    def on_copy(self, worker: NodeId, bucket: int, version: int, data: Data) -> Actions:
        self.fetched[bucket][worker] = version
        return []

    def ask_again(self) -> Actions:
        """Answer the fetches that came before the copies."""
        aside, self.aside = sorted(self.aside), set()
        return [action for fetch in aside for action in self._answer(*fetch)]

    def waiting_for(self) -> str:
        return super().waiting_for() if self.is_empty else "pushes and fetches"
