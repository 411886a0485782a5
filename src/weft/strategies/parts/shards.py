"""What strategies with parameter servers share: pushes and their answers, and a server that is moved.

Every push of a bucket is answered once, with the bucket and its version. A change of members forgets who was to be
answered: each worker pushes again what is unanswered, and a server that has it already answers without applying it.
A moved server has no parameters: it asks every worker for its copies, takes the newest of each bucket, and lets those
push again whose pushes came meanwhile. A newcomer is given each bucket, and its version, by its server.
"""

from collections.abc import Iterable, Mapping
from random import Random

from weft.core.actions import Action, Compute, Note, Send, copy
from weft.core.errors import ConfigError
from weft.core.events import Data, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.names import Buffer, Carries, NodeId
from weft.core.peer import Actions, Peer, give
from weft.core.world import World
from weft.strategies.parts.served import ServedWorker

PUSH = "push"
ANSWER = "params"
ASK = "ask"
COPY = "copy"
AGAIN = "again"

KINDS: Mapping[str, Carries] = {
    PUSH: Carries.GRADIENT,
    ANSWER: Carries.COPY,
    ASK: Carries.NOTHING,
    COPY: Carries.EXACT,
    AGAIN: Carries.NOTHING,
}


def check_servers(strategy: str, servers: int) -> None:
    """Refuse a number of servers that cannot hold the parameters."""
    if servers < 1:
        raise ConfigError(
            f"servers is {servers}, but the parameters must live on at least 1.\n  Use '{strategy}(servers=1)'."
        )


class ShardWorker(ServedWorker):
    """Pushes its gradient, waits for the parameters of its next step, and tells a moved server what it has."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.samples = 0.0
        self.clock = 0
        """What its last pushes say: its own step, or the version on which it computed."""
        self.missing: set[int] = set()
        """The buckets that were pushed and not answered; meanwhile the gradient stays whole."""
        self.versions = dict.fromkeys(world.trainable, 0)
        """The version of its copy of each bucket."""
        self.taken: set[int] = set()
        """The missing buckets whose push a server may have taken in an older view."""
        self.doubtful: set[int] = set()
        """Those of them of which that is so since the last change: one that is returned was not taken."""
        self.refused: set[int] = set()
        """The missing buckets whose push was put aside by a server that asked for copies."""

    def push_clock(self, step: int) -> int:
        """What the pushes of a step say."""
        return step

    def take_bucket(self, into: Buffer, body: Buffer, clock: int) -> Actions:
        if into.bucket in self.versions:
            self.versions[into.bucket] = clock
        return super().take_bucket(into, body, clock)

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.samples = event.samples
        self.clock = self.push_clock(event.step)
        self.missing = set(self.world.trainable)
        self.taken.clear()
        self.refused.clear()
        return self._push(self.world.trainable)

    def _push(self, buckets: Iterable[int]) -> Actions:
        world = self.world
        return [Send(world.server_of(b), PUSH, self.clock, b, world.gradient[b], self.samples) for b in buckets]

    def on_received(self, event: Received) -> Actions:
        bucket = event.bucket
        if event.kind == ASK:
            asked = self.world.buckets_of(event.source)
            self.refused |= self.missing.intersection(asked)
            return [self._copy(event.source, b) for b in asked]
        if bucket not in self.missing:
            raise self.unexpected(event)
        if event.kind == AGAIN:
            self.refused.discard(bucket)
            return self._push((bucket,))
        if event.kind != ANSWER or event.body is None or event.clock < self.versions[bucket]:
            raise self.unexpected(event)
        self.missing.remove(bucket)
        self.versions[bucket] = event.clock
        actions: Actions = [copy(self.world.params[bucket], event.body)]
        if not self.missing:
            actions.append(Compute(self.step))
        return actions

    def _copy(self, server: NodeId, bucket: int) -> Send:
        """Its copy of a bucket, and how many of its pushes may have been taken; of those one may be unanswered."""
        waits, is_taken = bucket in self.missing, bucket in self.taken
        data = {"pushed": self.step - int(waits and not is_taken), "unanswered": waits and is_taken}
        return Send(server, COPY, self.versions[bucket], bucket, self.world.params[bucket], data=data)

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self.doubtful = self.missing - self.taken - self.refused
        self.taken |= self.doubtful
        self.refused.clear()
        return self._push(sorted(self.missing))

    def on_returned(self, event: Returned) -> Actions:
        if event.kind == PUSH and event.view != self.view and event.bucket in self.doubtful:
            self.taken.discard(event.bucket)
        return super().on_returned(event)

    def waiting_for(self) -> str:
        if self.missing:
            return f"the parameters of step {self.step} from the servers ({len(self.missing)} buckets to go)"
        return super().waiting_for()


class ShardServer(Peer):
    """Keeps the parameters of its buckets; when it was moved, it first finds out what they are."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._mine = world.buckets_of(me)
        self.versions = dict.fromkeys(self._mine, 0)
        """How often each bucket was updated."""
        self.is_empty = False
        """It was moved here, and does not have the parameters yet."""
        self.unheard: set[tuple[NodeId, int]] = set()
        """The (worker, bucket) of the copies that it waits for."""
        self.aside: set[tuple[NodeId, int]] = set()
        """The (worker, bucket) of pushes that came before it was ready for them."""

    @property
    def is_ready(self) -> bool:
        """It takes pushes; others are put aside until then."""
        return not self.is_empty

    def on_push(self, event: Received) -> Actions:
        """Take a push of one of its buckets."""
        raise NotImplementedError

    def on_other(self, event: Received) -> Actions:
        """Take a message that only some of these strategies know."""
        raise self.unexpected(event)

    def regroup(self) -> Actions:
        """Go on with those who are still there; what was not answered is pushed again."""
        return []

    def on_copy(self, worker: NodeId, bucket: int, version: int, data: Data) -> Actions:
        """Learn what a worker knows of itself; its copy is the body being answered."""
        return []

    def enter(self, newcomer: NodeId, bucket: int, sponsor: NodeId) -> Actions:
        """Count a newcomer, which begins at its sponsor's step; it is given the bucket as it is now."""
        return []

    def recover(self) -> Actions:
        """Go on from the newest copies, which have all come."""
        return []

    def on_started(self, event: Started) -> Actions:
        if event.view and self._mine:  # not the first view: it was moved
            self.is_empty = True
            self.versions = dict.fromkeys(self._mine, -1)
        return []

    def on_members_changed(self, event: MembersChanged) -> Actions:
        self.aside.clear()
        if not self._mine:
            return []
        if not self.is_empty:
            return self.regroup()
        self.unheard = {(worker, bucket) for worker in self.workers for bucket in self._mine}
        return [Send(worker, ASK, 0, self._mine[0]) for worker in self.workers]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """At rest all pushes were answered: newcomers begin with the parameters as they are."""
        sponsor, actions = self.sponsor_of(newcomers), list[Action]()
        assert sponsor is not None, "newcomers come into a run that is under way"
        for newcomer in newcomers:
            for bucket in self._mine:
                actions += self.enter(newcomer, bucket, sponsor)
                actions.append(give(newcomer, self.versions[bucket], self.world.params[bucket]))
        return actions

    def on_received(self, event: Received) -> Actions:
        if event.kind == PUSH:
            if event.body is None or event.bucket not in self.versions:
                raise self.unexpected(event)
            return self.on_push(event) if self.is_ready else self.put_aside(event)
        if event.kind != COPY:
            return self.on_other(event)
        key = (event.source, event.bucket)
        if event.body is None or key not in self.unheard:
            raise self.unexpected(event)
        self.unheard.remove(key)
        actions: Actions = []
        if event.clock > self.versions[event.bucket]:
            self.versions[event.bucket] = event.clock
            actions.append(copy(self.world.params[event.bucket], event.body))
        actions += self.on_copy(*key, event.clock, event.data or {})
        if not self.unheard:
            self.is_empty = False
            actions += self.recover()
            actions += self.ask_again()
        return actions

    def put_aside(self, event: Received) -> Actions:
        """A push came before it is ready for it."""
        self.aside.add((event.source, event.bucket))
        return []

    def ask_again(self) -> Actions:
        """Let those push again whose pushes were put aside, once it is ready."""
        if not self.is_ready:
            return []
        aside, self.aside = sorted(self.aside), set()
        return [Send(worker, AGAIN, 0, bucket) for worker, bucket in aside]

    def answer(self, worker: NodeId, bucket: int) -> Send:
        """A bucket as it is now."""
        return Send(worker, ANSWER, self.versions[bucket], bucket, self.world.params[bucket])

    def waiting_for(self) -> str:
        if self.is_empty:
            names = ", ".join(str(worker) for worker in sorted({worker for worker, _ in self.unheard}))
            return f"the copies of workers {names}: it was moved and has no parameters"
        return "pushes"


def lost_updates(number: float) -> Actions:
    """A note of updates that went with a moved server, if there were any."""
    return [Note("lost_updates", number)] if number else []
