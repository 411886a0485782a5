"""What workers tell of their shares: how far they are, what is dealt again, and the rounds that are handed over."""

from msgspec import Struct

from weft.core.errors import CheckpointError

SHARED_IN = ("num_samples", "batch_size", "global_batch")


class Redealing(Struct, frozen=True):
    """A change of a share's rounds: what some workers have not committed is cut into new rounds."""

    committed: dict[int, int]
    """The workers whose parts are dealt again, and how many rounds each has committed."""
    takers: list[int]
    is_anew: bool = False
    """All that was left is dealt again, so that nobody takes anything more of the rounds before."""


class HandedRound(Struct, frozen=True):
    """A round, as a newcomer is told it: `places` are its first place and the one behind its last, or all of them."""

    places: list[int]
    is_range: bool
    workers: list[int]


class HandedRounds(Struct, frozen=True):
    """The rounds of a share, as a newcomer is told them."""

    rounds: list[HandedRound]
    num_void: int
    """Of how many of them, from the first on, all that was left has been dealt again."""
    size: int | None
    batch_size: int
    num_taken: int = 0
    """How many of them the worker that goes on with them has taken, and committed."""
    num_samples: int | None = None
    """Samples of the share; None: a checkpoint of an earlier version does not say."""

    def check(self, num_samples: int, batch_size: int, size: int | None) -> None:
        """Raise CheckpointError if the script that goes on with these rounds shares other data, or in other batches."""
        before = (self.num_samples if self.num_samples is not None else num_samples, self.batch_size, self.size)
        for name, theirs, mine in zip(SHARED_IN, before, (num_samples, batch_size, size), strict=True):
            if theirs != mine:
                raise CheckpointError(
                    f"the run that is to go on shared its data here with {name}={theirs}, but the script now has "
                    f"{name}={mine}.\n  Use the same data in batches of the same size, or another folder."
                )


class HandedShares(Struct, frozen=True):
    """What a newcomer must know of the shares of a run under way."""

    loop: int
    """The number of the loop over epochs in which the script is."""
    epoch: int
    first: int
    """The share with which this epoch begins, and the newcomer's script."""
    members: list[int]
    earlier: list[tuple[int, list[int]]]
    to_come: dict[int, list[Redealing]]
    rounds: dict[int, HandedRounds]
    """By share: those that its sponsor has begun, or was itself handed over."""
    num_unused: int
    worker: int
    """Whose they are."""


class Reached(Struct, frozen=True):
    """How far a worker's script is in its shares, which are numbered as it begins them."""

    begun: int
    """Number of shares that it has begun."""
    rounds: dict[int, int]
    """Of those that it has not ended: the number of rounds that it has committed."""

    def committed(self, share: int) -> int | None:
        """Number of rounds of a share that it has committed; None: all of them."""
        return self.rounds.get(share, 0 if share >= self.begun else None)

    @property
    def is_nested(self) -> bool:
        """Another share was begun within one that goes on: who begins that one anew would not come to the same."""
        return bool(self.rounds) and min(self.rounds) < self.begun - 1

    def is_before(self, first: int) -> bool:
        """Whether it has committed nothing of the epoch that begins with share `first`."""
        return self.begun <= first or (self.begun == first + 1 and self.rounds == {first: 0})

    def may_take(self, share: int) -> bool:
        """Whether it can still take samples of a share."""
        return self.committed(share) is not None

    def farther(self, other: "Reached") -> "Reached":
        """Of two views of the same worker, what either of them knows to be committed."""
        begun, shares = max(self.begun, other.begun), {*self.rounds, *other.rounds}
        known = {share: (self.committed(share), other.committed(share)) for share in shares}
        rounds = {share: max(a, b) for share, (a, b) in known.items() if a is not None and b is not None}
        return Reached(begun, rounds)


def why_impossible(shares: HandedShares, reached: Reached) -> str:
    """Why no worker can have told this of its shares; empty if one can. Workers that are gone have negative names."""
    numbers = [shares.loop, shares.epoch, shares.first, shares.num_unused, shares.worker, reached.begun]
    numbers += [*reached.rounds, *reached.rounds.values(), *shares.rounds, *shares.to_come]
    numbers += [stop for stop, _ in shares.earlier]
    numbers += [number for each in shares.to_come.values() for one in each for number in one.committed.values()]
    if min(numbers) < 0 or not shares.members:
        return "a number of its shares is negative, or they have no members"
    return next((why for each in shares.rounds.values() if (why := _why_no_rounds(each))), "")


def _why_no_rounds(handed: HandedRounds) -> str:
    num_rounds = len(handed.rounds)
    if not (0 <= handed.num_void <= num_rounds and 0 <= handed.num_taken <= num_rounds):
        return f"of {num_rounds} rounds, {handed.num_void} are void and {handed.num_taken} taken"
    if handed.batch_size < 1 or (handed.size is not None and handed.size < 1):
        return f"its batches have {handed.batch_size} samples, or {handed.size} in all"
    for each in handed.rounds:
        is_range = len(each.places) == 2 and each.places[0] <= each.places[1]
        if not each.workers or not each.places or min(each.places) < 0 or (each.is_range and not is_range):
            return "a round of its shares has no workers, or no places"
        if handed.num_samples is not None and max(each.places) > handed.num_samples:
            return f"a round has places behind its {handed.num_samples} samples"
    return ""
