"""Shares of a run that goes on from a checkpoint, with as many workers as it had or with others.

With as many, each goes on where one was. With others, all begin with the epoch of whoever was last, and what nobody has
committed is cut into new rounds among them: as if all earlier workers were lost, and all of these newcomers. So it is
with as many, too, if some had ended and left before the others: later shares were not divided among all.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from weft.data.share_records import HandedRound, HandedRounds, HandedShares, Reached, Redealing

Rename = Callable[[int], int]


class StoredShares(NamedTuple):
    """The shares of one worker of a checkpoint."""

    shares: HandedShares
    reached: Reached


def to_store(shares: HandedShares) -> HandedShares:
    """These shares without the rounds of epochs that this worker has ended: there may be thousands in each. If a slower
    worker is lost after the run has gone on, what it leaves of them is not counted as unused."""
    return replace(shares, rounds={share: each for share, each in shares.rounds.items() if share >= shares.first})


def first_shares(epoch: int, worker: int, num_workers: int) -> HandedShares:
    """The shares with which `worker` goes on at the beginning of an epoch, after epochs of a single worker, which has
    read its data in an order of its own. Their numbers are as if each epoch had had one."""
    return HandedShares(0, epoch, epoch, list(range(num_workers)), [], {}, {}, 0, worker)


def resumed_shares(stored: Sequence[StoredShares], worker: int, num_workers: int) -> HandedShares:
    """The shares with which `worker` of `num_workers` goes on; `stored` are those of all members of the checkpoint."""
    workers = [each.shares.worker for each in stored]
    is_same = len(stored) == num_workers and workers == stored[0].shares.members
    places = {earlier: place for place, earlier in enumerate(workers)} if is_same else {}
    known = [member for each in stored for _, members in each.shares.earlier for member in members]
    num_names = 1 + max([*known, *workers])

    def name(earlier: int) -> int:
        return places.get(earlier, earlier - num_names)  # who is not there any more has a negative name, or keeps one

    if places:
        mine = stored[worker]
        stop = max(each.reached.begun for each in stored)
        return _as_it_was(_renamed(mine.shares, name), mine.reached, stop)
    last = min(stored, key=lambda each: (each.shares.loop, each.shares.epoch, each.shares.first)).shares
    reached = {name(earlier): each.reached for earlier, each in zip(workers, stored, strict=True)}
    return _dealt_anew(_renamed(last, name), reached, list(range(num_workers)))


def _as_it_was(shares: HandedShares, reached: Reached, stop: int) -> HandedShares:
    """A worker's shares with what it has committed of them. Those that any worker had begun, below `stop`, stay divided
    as they are, though nobody has begun them again yet."""

    def taken(share: int, rounds: HandedRounds) -> HandedRounds:
        committed = reached.committed(share)
        return replace(rounds, num_taken=len(rounds.rounds) if committed is None else committed)

    rounds = {share: taken(share, rounds) for share, rounds in shares.rounds.items()}
    return replace(shares, rounds=rounds, earlier=[*shares.earlier, (stop, shares.members)])


def _dealt_anew(shares: HandedShares, reached: dict[int, Reached], members: list[int]) -> HandedShares:
    """What none of the earlier workers has committed, for these members."""
    begun = (each.begun for each in reached.values())
    stop = max([shares.first, *begun, *(earlier for earlier, _ in shares.earlier)])
    to_come = dict(shares.to_come)
    for share in range(shares.first, stop):
        known = {worker: each.committed(share) for worker, each in reached.items()}
        committed = {worker: number for worker, number in known.items() if number is not None}
        to_come[share] = [*to_come.get(share, ()), Redealing(committed, members, is_anew=True)]
    earlier = [*shares.earlier, (stop, shares.members)]
    rounds = {share: each for share, each in shares.rounds.items() if share < stop}  # later ones: begun after a cut
    return replace(shares, members=members, earlier=earlier, to_come=to_come, rounds=rounds)


def _renamed(shares: HandedShares, name: Rename) -> HandedShares:
    """These shares with other names of workers."""

    def rounds_of(handed: HandedRounds) -> HandedRounds:
        return replace(handed, rounds=[_round(each, name) for each in handed.rounds])

    return replace(
        shares,
        members=[name(member) for member in shares.members],
        earlier=[(stop, [name(member) for member in members]) for stop, members in shares.earlier],
        to_come={share: [_dealing(each, name) for each in dealings] for share, dealings in shares.to_come.items()},
        rounds={share: rounds_of(rounds) for share, rounds in shares.rounds.items()},
    )


def _round(handed: HandedRound, name: Rename) -> HandedRound:
    return replace(handed, workers=[name(worker) for worker in handed.workers])


def _dealing(dealing: Redealing, name: Rename) -> Redealing:
    committed = {name(worker): number for worker, number in dealing.committed.items()}
    return replace(dealing, committed=committed, takers=[name(taker) for taker in dealing.takers])
