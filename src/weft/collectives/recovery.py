"""What survivors of a change of members tell each other, so that a reduction ends for all of them or for none."""

from weft.core.actions import Reduce, Send, copy
from weft.core.events import Received
from weft.core.names import Buffer, NodeId, Part
from weft.core.peer import Actions


class Recovery:
    """Counts what has ended; after a change of members, hands on what has ended for some survivors only.

    A reduction ends with everybody's contribution, and whoever has given one has ended the reduction before. So
    two survivors are at most one reduction of a bucket apart. Sums are made in two slots by turns: the last one
    stays whole until everybody has it.

    After a change every worker tells the others how many reductions of each bucket it has ended. When all have
    told, the lowest of those that are ahead hands its sum to each of those that are behind. What nobody has ended
    begins again with the workers of the new view. Another change begins all this anew.

    Assumes: channels are FIFO, and a message is received only in the view in which it was sent (decision 0017).
    """

    def __init__(self, name: str, me: NodeId, num_buckets: int) -> None:
        self._me = me
        self._slots = (f"{name}.sum.0", f"{name}.sum.1")
        self._told, self._handed = kinds_of(name)
        self.num_ended = [0] * num_buckets
        self.last: dict[int, tuple[str, int, float]] = {}
        """Of each bucket the reduction that ended last: its kind, its clock and its total weight."""
        self.words: dict[NodeId, int] = {}
        """What the workers have told since the change of members, this one included."""
        self.untold: set[NodeId] = set()
        """Those that have not told yet."""
        self.owed: dict[int, NodeId] = {}
        """Buckets whose sum another worker is about to hand on."""
        self.unclaimed: set[int] = set()
        """Buckets whose last sum was handed on, while the inner peer has not asked for it again."""

    def sum(self, bucket: int, part: Part | None = None) -> Buffer:
        """Where the reduction of a bucket that has not ended is summed."""
        return Buffer(self._slots[self.num_ended[bucket] & 1], bucket, part)

    def last_sum(self, bucket: int) -> Buffer:
        """The sum that ended last."""
        return Buffer(self._slots[self.num_ended[bucket] & 1 ^ 1], bucket)

    def end(self, bucket: int, kind: str, clock: int, weight: float) -> None:
        """The sum of a bucket is complete."""
        self.num_ended[bucket] += 1
        self.last[bucket] = kind, clock, weight

    def begin(self, view: int, workers: tuple[NodeId, ...]) -> Actions:
        """The members changed: tell the other workers what has ended here."""
        self.words = {self._me: _word(self.num_ended)}
        self.untold = set(workers) - {self._me}
        self.owed.clear()
        data = {"ended": f"{self.words[self._me]:x}"}
        return [Send(worker, self._told, view, 0, data=data) for worker in workers if worker != self._me]

    def hear(self, event: Received) -> Actions:
        """Another worker tells; when all have told, hand on what others lack."""
        assert event.data is not None
        self.words[event.source] = int(str(event.data["ended"]), 16)
        self.untold.discard(event.source)
        if self.untold:
            return []
        mine = self.words[self._me]
        different = 0
        for word in self.words.values():
            different |= word ^ mine
        actions: Actions = []
        for bucket, count in enumerate(self.num_ended):
            if _ended(different, bucket):
                actions += self._settle(bucket, has_come=_ended(mine, bucket) != count & 3)
        return actions

    def _settle(self, bucket: int, *, has_come: bool) -> Actions:
        """Some survivors have ended a reduction of this bucket, others have not: know who hands it on to whom."""
        mine = _ended(self.words[self._me], bucket)
        leads = {worker: (_ended(word, bucket) - mine + 1) % 4 - 1 for worker, word in self.words.items()}
        most = max(leads.values())
        giver = min(worker for worker, lead in leads.items() if lead == most)
        if most:
            if not has_come:
                self.owed[bucket] = giver
            return []
        if giver != self._me:
            return []
        kind, clock, weight = self.last[bucket]
        return [
            Send(worker, self._handed, clock, bucket, self.last_sum(bucket), weight, {"kind": kind})
            for worker, lead in leads.items()
            if lead < 0
        ]

    def take(self, event: Received) -> Actions:
        """Another worker hands a sum on, perhaps before all have told this one."""
        assert event.body is not None
        assert event.data is not None
        self.owed.pop(event.bucket, None)
        into = self.sum(event.bucket)
        self.end(event.bucket, str(event.data["kind"]), event.clock, event.weight)
        self.unclaimed.add(event.bucket)
        return [copy(into, event.body)]

    def blocks(self, bucket: int) -> bool:
        """True while it is open whether the next reduction of a bucket has ended already."""
        return bool(self.untold) or bucket in self.owed

    def claim(self, reduce: Reduce) -> float | None:
        """The weight of the sum that was handed on for this very reduction; None when it must be made."""
        bucket = reduce.buffer.bucket
        if bucket not in self.unclaimed:
            return None
        self.unclaimed.remove(bucket)
        kind, clock, weight = self.last[bucket]
        return weight if (kind, clock) == (reduce.kind, reduce.clock) else None


def kinds_of(name: str) -> tuple[str, str]:
    """The messages of a recovery: what has ended, and a sum that is handed on."""
    return f"{name}@ended", f"{name}@handed"


def _word(num_ended: list[int]) -> int:
    """How many reductions of each bucket have ended, modulo 4: two bits are enough where survivors differ by one.

    In hexadecimal the data of a message has room for 8,000 buckets.
    """
    word = 0
    for bucket, count in enumerate(num_ended):
        word |= (count & 3) << 2 * bucket
    return word


def _ended(word: int, bucket: int) -> int:
    return word >> 2 * bucket & 3
