"""Samples dealt again when members change: a share is a list of rounds, and a change adds rounds at its end.

A round is a global batch: places in the share's order, and the workers that divide it. When a worker is lost, its parts
of the rounds that it has not committed are taken together and cut into new rounds, for the workers that are left. When
newcomers come, that is done with what all have not committed. So every sample is used once. All workers compute the
same rounds, because all are told the same changes in the same order; a newcomer is handed the rounds of its sponsor.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar

from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached, Redealing
from weft.data.static import global_batches, share_of

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
        """What `worker` takes; with fewer samples than workers, some stand in with one that does not count.

        Of what was dealt again, nobody is given a batch of one sample, on which batch normalization fails: fewer
        workers take two or more, and a single one is given twice.
        """
        place, num_workers = self.workers.index(worker), len(self.workers)
        if isinstance(self.places, range):
            start, stop = share_of((0, len(self.places)), place, num_workers)
            return RoundPart(self.places[start:stop], stop - start) if stop > start else RoundPart(self.places[:1], 0)
        num_takers = min(num_workers, max(1, len(self.places) // 2))
        start, stop = share_of((0, len(self.places)), place, num_takers) if place < num_takers else (0, 0)
        mine = self.places[start:stop] or self.places[:1]
        return RoundPart(mine if len(mine) > 1 else [*mine, *mine], stop - start)

    def counted(self, worker: int) -> Sequence[int]:
        """The places of `worker` that count."""
        part = self.part(worker)
        return part.places[: part.num_counted]

    def handed(self) -> HandedRound:
        places = self.places
        if isinstance(places, range):
            return HandedRound([places.start, places.stop], True, list(self.workers))
        return HandedRound(list(places), False, list(self.workers))

    @classmethod
    def of(cls, handed: HandedRound) -> "ShareRound":
        return cls(range(*handed.places) if handed.is_range else handed.places, handed.workers)


class ShareRounds:
    """The rounds of one share, as `worker` takes its parts of them."""

    def __init__(
        self,
        share: int,
        worker: int,
        rounds: Sequence[ShareRound],
        size: int | None,
        batch_size: int,
        num_void: int = 0,
        num_samples: int | None = None,
    ) -> None:
        """`size` is the number of samples of all workers together; None: `batch_size` for each worker. All that was
        left of the first `num_void` rounds has been dealt again. `num_samples` are the share's, if that is known."""
        self.share = share
        self._worker = worker
        self._rounds = list(rounds)
        self._size, self._batch_size = size, batch_size
        self._num_void, self._num_samples = num_void, num_samples
        self.num_anew = 0
        """How often all that was left was dealt again: what was read before that is void."""
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

    def while_in_force(self, batches: Iterable[Result], rest: Callable[[], None]) -> Iterator[Result]:
        """These batches, as long as the parts for which they were read are still this worker's. `rest` is called before
        each, unless steps are still to be made with some that were taken before."""
        num_anew = self.num_anew
        each = iter(batches)
        while True:
            if self.num_taken == self.num_committed:
                rest()
            if self.num_anew != num_anew or (batch := next(each, None)) is None:
                return
            yield batch

    def deal(self, dealing: Redealing) -> int:
        """Cut what some have not committed into new rounds; returns how many samples nobody takes."""
        places = [
            place
            for number, each in enumerate(self._rounds)
            for worker in each.workers
            if number >= max(self._num_void, dealing.committed.get(worker, len(self._rounds)))
            for place in each.counted(worker)
        ]
        if dealing.is_anew:
            self._num_void = self.num_taken = self.num_committed = len(self._rounds)
            self.num_anew += 1
        takers = dealing.takers
        if not takers:
            return len(places)
        size = self._size or self._batch_size * len(takers)
        starts = list(range(0, len(places), size))
        if len(starts) > 1 and len(places) - starts[-1] < 2 * len(takers):  # too few for a round of their own
            starts.pop()
        stops = [*starts[1:], len(places)]
        self._rounds += [
            ShareRound(places[start:stop], takers) for start, stop in zip(starts, stops, strict=False) if start < stop
        ]
        return 0

    def hand_over(self) -> HandedRounds:
        """All rounds, for a newcomer."""
        rounds = [each.handed() for each in self._rounds]
        return HandedRounds(rounds, self._num_void, self._size, self._batch_size, num_samples=self._num_samples)

    @classmethod
    def of(cls, share: int, worker: int, handed: HandedRounds) -> "ShareRounds":
        """The rounds that were handed over."""
        rounds = [ShareRound.of(each) for each in handed.rounds]
        made = cls(share, worker, rounds, handed.size, handed.batch_size, handed.num_void, handed.num_samples)
        made.num_taken = made.num_committed = handed.num_taken
        return made


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
        self._place: tuple[int, int, int] | None = None
        """The loop and the epoch in which the script is, and the first share of that epoch; None before any."""
        self._open: dict[int, ShareRounds] = {}
        """The shares that the script has begun and not ended. One may be evaluated on while another goes on."""
        self._ended: dict[int, ShareRounds] = {}
        """The last shares that it has ended: others may still be in them."""
        self._to_come: dict[int, list[Redealing]] = {}
        """By share that this worker has not begun: how its rounds have changed since others began it."""
        self._handed: dict[int, HandedRounds] = {}
        """By share that a newcomer has not begun: its rounds, as its sponsor has handed them over."""
        self.keeps_step = False
        """All make the same steps: what not all can take, nobody takes."""
        self._cut: Reached | None = None
        """Where the script was when it was told to end within a share."""
        self.num_unused = 0
        """Samples of lost workers that nobody uses, because others had ended that share."""

    def reached(self, *, is_reduced: bool = False) -> Reached:
        """Where this worker is; `is_reduced`: what it has taken is committed, too."""
        rounds = {share: each.num_taken if is_reduced else each.num_committed for share, each in self._open.items()}
        if self._handed:  # of shares that are not open
            rounds |= {share: each.num_taken for share, each in self._handed.items() if each.num_taken}
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
        if share in self._handed:
            self._handed[share].check(num_samples, batch_size, size)
            rounds = ShareRounds.of(share, self._worker, self._handed.pop(share))
        else:
            workers = next((members for stop, members in self._earlier if share < stop), self._members)
            spans = global_batches(num_samples, len(workers), batch_size, drop_last, size)
            each = [ShareRound(range(start, stop), workers) for start, stop in spans]
            rounds = ShareRounds(share, self._worker, each, size, batch_size, num_samples=num_samples)
        self._open[share] = rounds
        for dealing in self._to_come.pop(share, ()):
            self.num_unused += rounds.deal(dealing)
        self._publish(self.reached())
        return rounds

    def more(self, rounds: ShareRounds) -> list[RoundPart]:
        """What a share still has for this worker; if that is nothing, the share is ended."""

        def look() -> list[RoundPart]:
            if not (parts := rounds.parts()):
                self.end(rounds)
            return parts

        return self._when_dealt(look)

    def cut(self) -> None:
        """The script was told to end within a share; it may still begin others, of which it takes nothing."""
        self._cut = self._cut or self.reached()

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
        stop = self._change_members(members, max([num_begun, *(reached.begun for reached in lost.values())]))
        for worker, reached in sorted(lost.items()):
            for share in range(stop):
                num_rounds = reached.committed(share)
                if num_rounds is not None:
                    self._deal(share, Redealing({worker: num_rounds}, self._takers(share, members)))
        self._forget_ended(members)

    def welcome(self, newcomers: Sequence[int], members: Mapping[int, Reached], num_begun: int) -> None:
        """Deal again, with `newcomers` among the `members`, what these have not committed of the shares begun."""
        for share in range(self._change_members(members, num_begun)):
            before = {member: members[member].committed(share) for member in members if member not in newcomers}
            committed = {member: number for member, number in before.items() if number is not None}
            self._deal(share, Redealing(committed, self._takers(share, members), is_anew=True))
        self._forget_ended(members)
        self._publish(self.reached())

    def _forget_ended(self, members: Mapping[int, Reached]) -> None:
        """Shares that all have ended are dealt to nobody any more. Those of this epoch stay: a newcomer begins with its
        first."""
        first = 0 if self._place is None else self._place[2]
        for share in [share for share in self._ended if share < first]:
            if all(reached.committed(share) is None for reached in members.values()):
                del self._ended[share]

    def _change_members(self, members: Mapping[int, Reached], num_begun: int) -> int:
        """From now on these are the members; returns the number of shares that stay divided among those before."""
        begun = (reached.begun for reached in members.values())
        stop = max([num_begun, *begun, *(earlier for earlier, _ in self._earlier)])
        self._earlier.append((stop, self._members))
        self._members = sorted(members)
        return stop

    def _takers(self, share: int, members: Mapping[int, Reached]) -> list[int]:
        takers = [member for member in self._members if members[member].may_take(share)]
        return [] if self.keeps_step and len(takers) < len(members) else takers

    def _deal(self, share: int, dealing: Redealing) -> None:
        rounds = self._open.get(share) or self._ended.get(share)
        if rounds is not None:
            self.num_unused += rounds.deal(dealing)
        elif share >= self._begun:
            self._to_come.setdefault(share, []).append(dealing)

    def begin_epoch(self, loop: int, epoch: int) -> None:
        """The script begins an epoch of its `loop`-th loop over epochs, or has ended the one before it."""
        self._place = loop, epoch, self._begun

    @property
    def to_keep(self) -> Reached:
        """Where this worker is, for a checkpoint: where it was when it was told to end within a share."""
        return self._cut or self.reached()

    @property
    def can_be_taken_over(self) -> bool:
        """Whether a newcomer can begin where this script is: in a share, in an epoch."""
        return self._place is not None and self.is_in_share

    @property
    def has_epochs(self) -> bool:
        """Whether the script has begun a loop over epochs, by which a place in it can be told."""
        return self._place is not None

    @property
    def is_in_share(self) -> bool:
        """Whether the script reads a share."""
        return bool(self._open)

    @property
    def are_taken(self) -> bool:
        """Whether the script has begun a share in an epoch, so that another is to be expected."""
        return self._place is not None and self._begun > 0

    def hand_over(self) -> HandedShares:
        """What a newcomer must know of the shares, to begin with the epoch in which this script is."""
        assert self._place is not None
        begun = {share: each.hand_over() for share, each in {**self._ended, **self._open}.items()} | self._handed
        earlier = [(stop, list(members)) for stop, members in self._earlier]
        to_come = {share: list(dealings) for share, dealings in self._to_come.items()}
        members = list(self._members)
        return HandedShares(*self._place, members, earlier, to_come, begun, self.num_unused, self._worker)

    def take_over(self, handed: HandedShares) -> None:
        """This worker is a newcomer: its script begins with the first share that is handed over."""
        self._begun, self._members = handed.first, handed.members
        self._handed = {share: each for share, each in handed.rounds.items() if share >= handed.first}
        for share in sorted(handed.rounds.keys() - self._handed.keys()):
            self._ended[share] = ShareRounds.of(share, self._worker, handed.rounds[share])
        self._earlier = [*handed.earlier]
        self.num_unused = handed.num_unused
        self._to_come = {share: list(dealings) for share, dealings in handed.to_come.items()}
        self._publish(self.reached())
