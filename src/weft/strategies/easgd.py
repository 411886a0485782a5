"""Elastic averaging SGD: replicas explore on their own, tied to a common centre by an elastic force."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from weft.core.actions import Combine, Compute, Note, Send, add, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, MembersChanged, Received, Reduced, Returned, Started, StepFinished
from weft.core.invariants import Invariant, holds
from weft.core.names import CENTRE, PARAMS, Buffer, Carries, NodeId, Result, Role, Roles, Slot
from weft.core.peer import Actions, Peer, give
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.periodic_average import PeriodicAveragePeer
from weft.strategies.parts.reductions import check_period
from weft.strategies.parts.served import ServedWorker
from weft.strategies.parts.shards import check_servers

MEAN = "easgd.mean"
DELTA = "easgd.delta"
OFFER = "offer"
ANSWER = "answer"
ASK = "ask"
REPLICA = "replica"
BETA = 0.9
"""How far the centre goes to the replicas' mean when all N pull: N alpha (section 5 of the paper)."""


@dataclass(frozen=True)
class EASGD(Strategy):
    """Elastic averaging SGD (Zhang, Choromanska & LeCun, NIPS 2015, section 3).

    Every `period` steps a worker is pulled to the centre, and the centre to the worker, by the same force:
    w_i -= η g_i + alpha (w_i - centre); centre += alpha Σ_i (w_i - centre), all with the values before the step.
    mode='sync': all exchange together, and every worker keeps the centre alike. mode='async': the centre is
    on `servers`; a worker offers its parameters and goes on, and subtracts the answer whenever it comes.
    Without alpha it is 0.9 / N for N workers. The force has two equal ends, so every replica counts alike,
    whatever its samples; a worker that leaves pulls no more. The result is the centre or, before anybody was
    pulled to it, the mean of the replicas.
    A newcomer sets out from the centre: its sponsor's, or that on the servers.
    Use it when workers should try different ways before they agree, or, asynchronous, when they are not
    equally fast. BatchNorm's means are averaged when all exchange together, and else the worker's own.

    Assumes: all workers begin with the same parameters.
    """

    entry = Entry(
        "easgd",
        "elastic averaging (Zhang et al. 2015)",
        "replicas explore alone, tied to a common centre by an elastic force; in step or asynchronous",
    )

    period: int = 8
    alpha: float | None = None
    mode: str = "sync"
    servers: int = 1

    def __post_init__(self) -> None:
        check_period("easgd", self.period)
        check_servers("easgd", self.servers)
        if self.mode not in ("sync", "async"):
            raise ConfigError(f"mode is '{self.mode}', but it is 'sync' or 'async'.\n  Use 'easgd(mode=sync)'.")
        if self.mode == "sync" and self.servers > 1:
            raise ConfigError(
                f"servers is {self.servers}, but in step every worker keeps the centre itself.\n"
                f"  Use 'easgd(mode=async, servers={self.servers})', or leave servers out."
            )
        if self.alpha is not None and not 0.0 < self.alpha <= 1.0:
            raise ConfigError(
                f"alpha is {self.alpha}, but it is above 0 and at most 1 / workers.\n"
                f"  Leave it out for {BETA} / workers."
            )

    def force(self, num_workers: int) -> float:
        """The part of its distance to the centre by which a worker is pulled."""
        if self.alpha is not None and self.alpha > 1.0 / num_workers:
            raise ConfigError(
                f"alpha is {self.alpha}, but {num_workers} workers together would pull the centre beyond their mean: "
                f"it is above 0 and at most {1.0 / num_workers:.3g} (1 / workers).\n"
                f"  Use 'easgd(alpha={BETA / num_workers:.3g})', or leave it out for {BETA} / workers."
            )
        return BETA / num_workers if self.alpha is None else self.alpha

    @property
    def reduces(self) -> bool:
        return self.mode == "sync"

    @property
    def keeps_step(self) -> bool:
        return self.mode == "sync"

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def rest_period(self) -> int:
        return self.period

    @property
    def first_exchange(self) -> int:
        return self.period

    @property
    def result(self) -> Result:
        return Result.CENTRE if self.mode == "sync" else Result.SERVERS

    def roles(self, num_workers: int) -> Roles:
        self.force(num_workers)
        return Roles(num_workers, 0 if self.mode == "sync" else self.servers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        if self.mode == "sync":
            return (Slot(CENTRE), Slot(MEAN))
        return (Slot(DELTA),) if role is Role.SERVER else ()

    def kinds(self) -> Mapping[str, Carries]:
        if self.mode == "sync":
            return {"average": Carries.STATE}
        return {OFFER: Carries.STATE, ANSWER: Carries.EXACT, ASK: Carries.NOTHING, REPLICA: Carries.STATE}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        kept = (holds("conservation.ground_is_kept"), holds("conservation.elastic_total_is_conserved"))
        return (*kept, holds("equality.slot_is_alike", slot=CENTRE)) if self.mode == "sync" else kept

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        modes = ({"mode": "sync"}, {"mode": "async", "servers": 1}, {"mode": "async", "servers": 2})
        return {"period": rng.randint(1, 4), **rng.choice(modes)}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        force = self.force(world.num_workers)
        if self.mode == "sync":
            return SyncElasticPeer(self.period, force, me, world, rng)
        if world.role(me) is Role.SERVER:
            return ElasticServer(force, me, world, rng)
        return ElasticWorker(self.period, me, world, rng)


class SyncElasticPeer(PeriodicAveragePeer):
    """Keeps a centre of its own, which moves as everybody's does."""

    _inherits = (PARAMS, CENTRE)

    def __init__(self, period: int, force: float, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(period, me, world, rng)
        self._force = force

    def on_started(self, event: Started) -> Actions:
        return [*(copy(Buffer(CENTRE, b), self.world.params[b]) for b in self.world.trainable), Compute(0)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        if (event.step + 1) % self._period:
            return super().on_step_finished(event)
        actions: Actions = []
        for b in self.world.trainable:
            params = self.world.params[b]
            actions += [
                copy(Buffer(MEAN, b), params),
                Combine(params, 1.0 - self._force, Buffer(CENTRE, b), self._force),
            ]
        return actions + super().on_step_finished(event)

    def take_over(self, handed: Data) -> Actions:
        centre = [copy(self.world.params[b], Buffer(CENTRE, b)) for b in self.world.trainable]
        return [*centre, *super().take_over(handed)]

    def average(self, clock: int) -> Actions:
        trained = self.world.trainable
        return [
            self.reduce("average", clock, Buffer(MEAN, b), 1.0)
            if b in trained
            else self.reduce("average", clock, params, self.samples)
            for b, params in enumerate(self.world.params)
        ]

    def take(self, event: Reduced) -> Actions:
        mean = event.buffer
        if mean.slot != MEAN:
            return []
        beta = self._force * event.weight
        return [Combine(Buffer(CENTRE, mean.bucket), 1.0 - beta, mean, beta)]


class ElasticWorker(ServedWorker):
    """Offers its parameters, one offer at a time, and goes on; tells a server that was moved what it holds."""

    def __init__(self, period: int, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._period = period
        self.offered: dict[int, int] = {}
        """The buckets whose answer has not come, with the view in which they were offered."""

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        actions: Actions = []
        if self.step % self._period == 0 and not self.offered:
            self.offered = dict.fromkeys(self.world.trainable, self.view)
            actions += [
                Send(self.world.server_of(b), OFFER, self.step, b, self.world.params[b]) for b in self.world.trainable
            ]
        return [*actions, *apply_gradient(self.world, event.samples), Compute(self.step)]

    def on_received(self, event: Received) -> Actions:
        bucket = event.bucket
        params = self.world.params[bucket]
        if event.kind == ANSWER:
            self.offered.pop(bucket, None)
            late = Note("staleness", self.step - event.clock)
            return [late, add(params, event.body, -1.0)] if event.body is not None else []
        if event.kind == ASK:
            if self.offered.get(bucket, self.view) < self.view:  # made to the server that was lost
                del self.offered[bucket]
            return [Send(event.source, REPLICA, event.clock, bucket, params)]
        raise self.unexpected(event)

    def on_returned(self, event: Returned) -> Actions:
        """A lost offer changed nothing; the next is made in its time."""
        if event.kind == OFFER:
            self.offered.pop(event.bucket, None)
            return []
        return super().on_returned(event)

    def waiting_for(self) -> str:
        if self.offered:
            return f"the user's iteration, with an offer open ({len(self.offered)} buckets)"
        return super().waiting_for()


class ElasticServer(Peer):
    """Keeps the centre of its buckets. One that was moved has lost it, and takes the mean of the replicas."""

    def __init__(self, force: float, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._force = force
        self.missing: dict[int, set[NodeId]] = {}
        """Of each bucket whose centre was lost: the workers that have not told what they hold."""
        self.told: dict[int, int] = {}
        """And how many have."""

    def on_started(self, event: Started) -> Actions:
        if not event.view:
            return []
        mine = self.world.buckets_of(self.me)  # not the first view: it was moved, and hears next of its members
        self.missing = {b: set(self.workers) for b in mine}
        self.told = dict.fromkeys(mine, 0)
        return [Note("centres_lost", len(mine))]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """Ask, and ask again: what was asked or told in the older view, and did not arrive, nobody repeats."""
        left = {b: workers.intersection(self.workers) for b, workers in self.missing.items()}
        self.missing = {b: workers for b, workers in left.items() if workers}
        return [Send(worker, ASK, 0, b) for b, workers in self.missing.items() for worker in sorted(workers)]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """At rest the centre is whole: newcomers set out from it."""
        mine = [self.world.params[b] for b in self.world.buckets_of(self.me)]
        return [give(newcomer, 0, centre) for newcomer in newcomers for centre in mine]

    def on_received(self, event: Received) -> Actions:
        if event.body is None or event.bucket not in self.world.buckets_of(self.me):
            raise self.unexpected(event)
        if event.kind == OFFER:
            return self._answer(event, event.body)
        if event.kind == REPLICA and event.source in self.missing.get(event.bucket, ()):
            return self._take_replica(event, event.body)
        raise self.unexpected(event)

    def _answer(self, event: Received, theirs: Buffer) -> Actions:
        bucket = event.bucket
        if bucket in self.missing:
            return [Send(event.source, ANSWER, event.clock, bucket)]
        centre, delta = self.world.params[bucket], Buffer(DELTA, bucket)
        return [
            Combine(delta, 0.0, theirs, self._force),
            add(delta, centre, -self._force),
            add(centre, delta),
            Send(event.source, ANSWER, event.clock, bucket, delta),
        ]

    def _take_replica(self, event: Received, theirs: Buffer) -> Actions:
        bucket = event.bucket
        self.told[bucket] += 1
        self.missing[bucket].discard(event.source)
        if not self.missing[bucket]:
            del self.missing[bucket]
        share = 1.0 / self.told[bucket]
        return [Combine(self.world.params[bucket], 1.0 - share, theirs, share)]

    def on_returned(self, event: Returned) -> Actions:
        """An answer is sent again, or, when its worker has left, taken back: the worker never subtracts it."""
        if event.kind != ANSWER:
            return super().on_returned(event)
        if event.target in self.members:
            return [Send(event.target, ANSWER, event.clock, event.bucket, event.body)]
        return [] if event.body is None else [add(self.world.params[event.bucket], event.body, -1.0)]

    def waiting_for(self) -> str:
        for bucket, workers in self.missing.items():
            return f"what worker {', '.join(map(str, sorted(workers)))} holds of bucket {bucket}, to find the centre"
        return "offers"
