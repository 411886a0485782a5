"""The coordinator of Sandblaster: hands out portions, sums what comes back, and steps when the whole batch is in."""

from collections.abc import Sequence
from random import Random

from weft.core.actions import Apply, Combine, Note, Send, copy, rescale
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Received, Returned, Started
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions, Peer, give
from weft.core.world import World

ASK = "ask"
PORTION = "portion"
RESULT = "result"
SKIPPED = "skipped"
PARAMETERS = "params"
MOVED, HAVE, FETCH, KEPT = "moved", "have", "fetch", "kept"
"""A coordinator that was moved says so, hears which parameters workers have, fetches the newest and is sent them."""

SUM = "sandblaster.sum"
RULE = "lbfgs"
COPIES_MAX = 2


class PassBucket:
    """What the coordinator has of one bucket in this pass."""

    def __init__(self) -> None:
        self.counted: set[int] = set()
        """The portions whose first result is in; the workers, if each brings a batch of its own."""
        self.samples = 0.0
        self.is_empty = True
        """Nothing has been summed yet."""


class Dealing:
    """Who computes which portion of one pass."""

    def __init__(self, num_portions: int) -> None:
        self.left = list(range(num_portions))
        """Those that nobody has been given."""
        self.out: dict[int, list[NodeId]] = {}
        """Who computes each portion that is out, the one that has been out longest first."""

    def give(self, worker: NodeId) -> int | None:
        """Hand out a portion that is left."""
        if not self.left:
            return None
        portion = self.left.pop(0)
        self.out[portion] = [worker]
        return portion

    def copy(self, worker: NodeId) -> int | None:
        """Hand out the portion that has been out longest once more, at most twice in all."""
        portion = next((p for p, holders in self.out.items() if len(holders) < COPIES_MAX), None)
        if portion is not None:
            self.out[portion].append(worker)
        return portion

    @property
    def is_done(self) -> bool:
        return not self.left and not self.out

    def is_at(self, portion: int, worker: NodeId) -> bool:
        return worker in self.out.get(portion, ())

    def has_any(self, worker: NodeId) -> bool:
        return any(worker in holders for holders in self.out.values())

    def end(self, portion: int) -> None:
        """Its result is in: nobody else's counts."""
        self.out.pop(portion, None)

    def keep(self, workers: Sequence[NodeId]) -> None:
        """Only these are left: what no one of them computes is to be handed out again."""
        for portion in list(self.out):
            self.out[portion] = [worker for worker in self.out[portion] if worker in workers]
            if not self.out[portion]:
                del self.out[portion]
                self.left.append(portion)


class Coordinator(Peer):
    """Keeps the parameters; hands out portions, sums their gradients and steps when the whole batch is in."""

    def __init__(self, backups: bool, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self._backups = backups
        self.clock = 0
        """The pass under way."""
        self.versions: dict[NodeId, int] | None = None
        """After a move: the parameters that each worker has, until the newest of them are here."""
        self.has_asked = False
        """The workers were asked for them."""
        self.source: NodeId | None = None
        """The worker that they are fetched from."""
        self.missing: set[int] = set()
        self._begin_pass()

    def _begin_pass(self) -> None:
        self.num_portions: int | None = None
        """Known when a worker asks; 0: every worker brings a batch of its own."""
        self.dealing = Dealing(0)
        self.idle: list[NodeId] = []
        """Workers that asked when there was nothing to give."""
        self.shards = {bucket: PassBucket() for bucket in self.world.trainable}

    def on_started(self, event: Started) -> Actions:
        """In a view after the first it was moved: it has nothing, and will next hear who is a member."""
        if not event.view:
            return []
        self.versions = {}
        return [Note("curvature_lost", 1.0)]

    def on_received(self, event: Received) -> Actions:
        if self.versions is not None:
            return self._recover(self.versions, event)
        if event.kind in (HAVE, KEPT):  # repeated by a worker that had told another coordinator before
            return []
        if event.kind not in (ASK, RESULT, SKIPPED) or event.clock > self.clock:
            raise self.unexpected(event)
        if event.clock < self.clock:  # its pass is over; the parameters are on their way to the sender
            return self._drop(event)
        if event.kind == ASK:
            return self._on_ask(event)
        portion = self._portion_of(event)
        if portion is None:
            return self._drop(event)
        if event.kind == SKIPPED:
            for shard in self.shards.values():
                shard.counted.add(portion)
            return self._close_portion(portion)
        return self._on_result(event, portion)

    def _drop(self, event: Received) -> Actions:
        """Note what comes too late, once for all its buckets."""
        return [Note("dropped", 1.0)] if event.kind == RESULT and event.bucket == self.world.trainable[0] else []

    def _on_ask(self, event: Received) -> Actions:
        worker, data = event.source, event.data
        assert data is not None
        self._open(worker, data["portions"])
        return [] if worker in self.idle or self.dealing.has_any(worker) else self._hand_out(worker)

    def _open(self, worker: NodeId, num_portions: object) -> None:
        assert isinstance(num_portions, int)
        if self.num_portions is None:
            self.num_portions, self.dealing = num_portions, Dealing(num_portions)
        elif self.num_portions != num_portions:
            raise ConfigError(
                f"worker {worker} came to pass {self.clock} with {_said(num_portions)}, but others have "
                f"{_said(self.num_portions)}.\n  Let all workers share the same data, equally often."
            )

    def _hand_out(self, worker: NodeId) -> Actions:
        actions: Actions = []
        portion = self.dealing.give(worker)
        if portion is None and self._backups:
            portion = self.dealing.copy(worker)
            actions = [Note("backups", 1.0)]
        if portion is None:
            self.idle.append(worker)
            return []
        return [*actions, Send(worker, PORTION, self.clock, 0, data={"portion": portion})]

    def _portion_of(self, event: Received) -> int | None:
        """What a result counts for; None when the sender was not given it, or when another was first."""
        if event.data is None:
            self._open(event.source, 0)
            return event.source
        portion = event.data["portion"]
        assert isinstance(portion, int)
        return portion if self.dealing.is_at(portion, event.source) else None

    def _on_result(self, event: Received, portion: int) -> Actions:
        shard = self.shards.get(event.bucket)
        if shard is None or event.body is None:
            raise self.unexpected(event)
        if portion in shard.counted:
            return self._drop(event)
        shard.counted.add(portion)
        shard.samples += event.weight
        keep, shard.is_empty = 0.0 if shard.is_empty else 1.0, False
        return [Combine(Buffer(SUM, event.bucket), keep, event.body, event.weight), *self._close_portion(portion)]

    def _close_portion(self, portion: int) -> Actions:
        if all(portion in shard.counted for shard in self.shards.values()):
            self.dealing.end(portion)
            return self._close_pass()
        return []

    def _close_pass(self) -> Actions:
        """Step if the whole batch is in, and send the parameters to all."""
        if not (self.dealing.is_done if self.num_portions else self._has_batches_of_all()):
            return []
        actions: Actions = []
        if all(shard.samples for shard in self.shards.values()):
            actions += [rescale(Buffer(SUM, b), 1.0 / shard.samples) for b, shard in self.shards.items()]
            actions += [Apply(Buffer(SUM, b), self.world.params[b], RULE) for b in self.shards]
        self.clock += 1
        return actions + self._begin_everywhere()

    def _has_batches_of_all(self) -> bool:
        return bool(self.workers) and all(shard.counted.issuperset(self.workers) for shard in self.shards.values())

    def _begin_everywhere(self) -> Actions:
        self._begin_pass()
        return [
            Send(to, PARAMETERS, self.clock, b, self.world.params[b])
            for b in self.world.trainable
            for to in self.workers
        ]

    def _recover(self, versions: dict[NodeId, int], event: Received) -> Actions:
        """Hear what the workers have, and fetch the newest; what else comes is answered when the pass begins again."""
        if event.kind == HAVE:
            versions[event.source] = event.clock
            return self._fetch(versions)
        if event.kind != KEPT or event.source != self.source:
            return []
        if event.body is None or event.bucket not in self.missing:
            raise self.unexpected(event)
        self.missing.discard(event.bucket)
        actions: Actions = [copy(self.world.params[event.bucket], event.body)]
        if self.missing:
            return actions
        self.clock, self.versions, self.source = event.clock, None, None
        return actions + self._begin_everywhere()

    def _fetch(self, versions: dict[NodeId, int]) -> Actions:
        if self.source in self.workers or not self.workers or not versions.keys() >= set(self.workers):
            return []
        self.source = max(self.workers, key=lambda worker: (versions[worker], -worker))
        self.missing = set(self.world.trainable)
        return [Send(self.source, FETCH, versions[self.source], 0)]

    def on_returned(self, event: Returned) -> Actions:
        if event.target not in self.members:
            return []
        return [Send(event.target, event.kind, event.clock, event.bucket, event.body, event.weight, event.data)]

    def on_members_changed(self, event: MembersChanged) -> Actions:
        """What only those who left computed is handed out again. A pass to which one of them brought a batch of its
        own, or some buckets of it, begins again."""
        if self.versions is not None:
            words: Actions = [] if self.has_asked else [Send(worker, MOVED, 0, 0) for worker in self.workers]
            self.has_asked = True
            return words + self._fetch(self.versions)
        self.dealing.keep(self.workers)
        idle, self.idle = [worker for worker in self.idle if worker in self.workers], []
        actions = [action for worker in idle for action in self._hand_out(worker)]
        if self.num_portions != 0:
            return actions
        brought = set().union(*(shard.counted for shard in self.shards.values()))
        return self._close_pass() if brought <= set(self.workers) else self._begin_everywhere()

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """A newcomer takes part in this pass, portion by portion; at rest nobody has brought it a batch of its own."""
        return [
            give(newcomer, self.clock, self.world.params[b]) for newcomer in newcomers for b in self.world.trainable
        ]

    def waiting_for(self) -> str:
        if self.versions is not None:
            return "the parameters that the workers have"
        if self.num_portions is None:
            return "workers to ask for portions"
        if self.num_portions == 0:
            silent = [w for w in self.workers if any(w not in shard.counted for shard in self.shards.values())]
            return f"the batch of worker {', '.join(map(str, silent))} in pass {self.clock}"
        return f"{len(self.dealing.left) + len(self.dealing.out)} of {self.num_portions} portions of pass {self.clock}"


def _said(num_portions: int) -> str:
    return f"{num_portions} portions" if num_portions else "a batch of its own"
