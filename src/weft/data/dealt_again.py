"""Samples of lost workers, dealt again: a share is a list of rounds, and a loss adds rounds at its end.

A round is a global batch: places in the share's order, and the workers that divide it. When a worker is lost, its parts
of the rounds that it has not committed are taken together and cut into new rounds, for the workers that are left. So
every sample is used once. All workers compute the same rounds, because all are told the same losses in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from weft.data.static import Span, global_batches, share_of

Result = TypeVar("Result")
ENDED_MAX = 64
"""How many shares behind the others a lost worker may have been, so that what it leaves is still counted."""


class RoundPart(NamedTuple):
    """What one worker takes of a round."""

    places: Sequence[int]
    num_counted: int
    """How many of these samples count: 0 where a worker stands in with another's sample, so that all make a step."""


class ShareRound(NamedTuple):
    """A global batch, and the workers that divide it."""

    places: Sequence[int]
    workers: Sequence[int]

    def part(self, worker: int) -> RoundPart:
        """What `worker` takes; with fewer samples than workers, some stand in with one that does not count."""
        start, stop = share_of((0, len(self.places)), self.workers.index(worker), len(self.workers))
        return RoundPart(self.places[start:stop], stop - start) if stop > start else RoundPart(self.places[:1], 0)


class Reached(Struct, frozen=True):
    """How far a worker's script is in its shares, which are numbered as it begins them."""

    begun: int
    """Number of shares that it has begun."""
    rounds: dict[int, int]
    """Of those that it has not ended: the number of rounds that it has committed."""

    def committed(self, share: int) -> int | None:
        """Number of rounds of a share that it has committed; None: all of them."""
        return self.rounds.get(share, 0 if share >= self.begun else None)

    def may_take(self, share: int) -> bool:
        """Whether it can still take samples of a share."""
        return self.committed(share) is not None

    def farther(self, other: "Reached") -> "Reached":
        """Of two views of the same worker, what either of them knows to be committed."""
        begun, shares = max(self.begun, other.begun), {*self.rounds, *other.rounds}
        known = {share: (self.committed(share), other.committed(share)) for share in shares}
        rounds = {share: max(a, b) for share, (a, b) in known.items() if a is not None and b is not None}
        return Reached(begun, rounds)


class ShareRounds:
    """The rounds of one share, as `worker` takes its parts of them."""

    def __init__(
        self, share: int, worker: int, spans: Sequence[Span], workers: Sequence[int], size: int | None, batch_size: int
    ) -> None:
        """`size` is the number of samples of all workers together; None: `batch_size` for each worker."""
        self.share = share
        self._worker = worker
        self._rounds = [ShareRound(range(start, stop), workers) for start, stop in spans]
        self._size, self._batch_size = size, batch_size
        self.num_taken = 0
        """Rounds of which this worker's script has its part, if it has one."""
        self.num_committed = 0
        """Rounds whose step is made."""

    def parts(self) -> list[RoundPart]:
        """What this worker's script has not taken yet."""
        return [each.part(self._worker) for each in self._rounds[self.num_taken :] if self._worker in each.workers]

    def take(self) -> None:
        """The script takes the next part."""
        mine = (self._worker in each.workers for each in self._rounds[self.num_taken :])
        self.num_taken += next(place for place, is_mine in enumerate(mine) if is_mine) + 1

    def lose(self, worker: int, num_rounds: int, takers: Sequence[int]) -> int:
        """Cut what `worker` has not committed into new rounds for `takers`; returns how many samples nobody takes."""
        parts = [each.part(worker) for each in self._rounds[num_rounds:] if worker in each.workers]
        places = [place for part in parts for place in part.places[: part.num_counted]]
        if not takers:
            return len(places)
        size = self._size or self._batch_size * len(takers)
        self._rounds += [ShareRound(places[start : start + size], takers) for start in range(0, len(places), size)]
        return 0


class WhenDealt(Protocol):
    """Calls a function when nothing is being dealt, and returns its result."""

    def __call__(self, look: Callable[[], Result]) -> Result: ...


class DealtAgain:
    """The shares of one worker's script, in a run whose members may change."""

    def __init__(
        self,
        worker: int,
        num_workers: int,
        when_dealt: "WhenDealt",
        publish: Callable[[Reached], None],
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`lock` is the driving thread's. `when_dealt` calls a function when nothing is being dealt: only then is known
        what is left to this worker. `publish` is called with where this worker is, whenever that changes."""
        self._worker = worker
        self._when_dealt, self._publish, self._lock = when_dealt, publish, lock or nullcontext()
        self._members: Sequence[int] = range(num_workers)
        self._earlier: list[tuple[int, Sequence[int]]] = []
        """(share, members): shares below this number are divided among these members."""
        self._begun = 0
        self._open: dict[int, ShareRounds] = {}
        """The shares that the script has begun and not ended. One may be evaluated on while another goes on."""
        self._ended: dict[int, ShareRounds] = {}
        """The last shares that it has ended: others may still be in them."""
        self._to_come: dict[int, list[tuple[int, int, Sequence[int]]]] = {}
        """By share that this worker has not begun: (worker, rounds, takers), for `ShareRounds.lose`."""
        self.num_unused = 0
        """Samples of lost workers that nobody uses, because all others had ended that share."""

    def reached(self, *, is_reduced: bool = False) -> Reached:
        """Where this worker is; `is_reduced`: what it has taken is committed, too."""
        rounds = {share: each.num_taken if is_reduced else each.num_committed for share, each in self._open.items()}
        return Reached(self._begun, rounds)

    def commit(self) -> None:
        """What the script has taken of its shares counts."""
        for rounds in self._open.values():
            rounds.num_committed = rounds.num_taken
        self._publish(self.reached())

    def begin(self, num_samples: int, batch_size: int, drop_last: bool, size: int | None) -> ShareRounds:
        """Begin the next share."""
        return self._when_dealt(lambda: self._begin(num_samples, batch_size, drop_last, size))

    def _begin(self, num_samples: int, batch_size: int, drop_last: bool, size: int | None) -> ShareRounds:
        share, self._begun = self._begun, self._begun + 1
        workers = next((members for stop, members in self._earlier if share < stop), self._members)
        spans = global_batches(num_samples, len(workers), batch_size, drop_last, size)
        rounds = self._open[share] = ShareRounds(share, self._worker, spans, workers, size, batch_size)
        for one in self._to_come.pop(share, ()):
            self.num_unused += rounds.lose(*one)
        self._publish(self.reached())
        return rounds

    def more(self, rounds: ShareRounds) -> list[RoundPart]:
        """What a share still has for this worker; if that is nothing, the share is ended."""

        def look() -> list[RoundPart]:
            parts = rounds.parts()
            if not parts:
                self.end(rounds)
            return parts

        return self._when_dealt(look)

    def end(self, rounds: ShareRounds) -> None:
        """The script has ended a share."""
        with self._lock:
            if self._open.pop(rounds.share, None) is not None:
                self._ended[rounds.share] = rounds
                if len(self._ended) > ENDED_MAX:
                    del self._ended[next(iter(self._ended))]
                self._publish(self.reached())

    def lose(self, lost: Mapping[int, Reached], members: Mapping[int, Reached], num_begun: int = 0) -> None:
        """Deal again what `lost` workers did not commit. The `num_begun` shares that somebody has begun, perhaps one
        whose script has ended, and those that a lost one has begun stay divided as they are; later ones are divided
        among the `members` that are left."""
        begun = (reached.begun for reached in (*members.values(), *lost.values()))
        stop = max([num_begun, *begun, *(earlier for earlier, _ in self._earlier)])
        self._earlier.append((stop, self._members))
        self._members = sorted(members)
        for worker, reached in sorted(lost.items()):
            for share in range(stop):
                num_rounds = reached.committed(share)
                takers = [member for member in self._members if members[member].may_take(share)]
                rounds = self._open.get(share) or self._ended.get(share)
                if num_rounds is None:
                    continue
                if rounds is not None:
                    self.num_unused += rounds.lose(worker, num_rounds, takers)
                elif share >= self._begun:
                    self._to_come.setdefault(share, []).append((worker, num_rounds, takers))
