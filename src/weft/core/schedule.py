"""What one rank does in a lowered collective: a fixed list of gives and takes.

A lowering is then a pure function (rank, hosts) -> schedule; one machine runs them all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.core.names import Part


class Give(NamedTuple):
    """Send this part of the own sum to a rank."""

    to: int
    part: Part | None = None


class Take(NamedTuple):
    """Wait for this part from a rank; add it to the own sum, or let it replace the own sum.

    `early` numbers the memory that keeps it when it comes before its turn.
    """

    source: int
    part: Part | None = None
    replace: bool = False
    early: int = 0


Step = Give | Take
Schedule = tuple[Step, ...]

Hosts = tuple[int, ...]
"""The host of each rank of a group."""

Scheduler = Callable[[int, Hosts], Schedule]
FlatScheduler = Callable[[int, int], Schedule]


@dataclass(frozen=True)
class Flat:
    """A lowering that is the same wherever its ranks sit: a function of (rank, size)."""

    schedule: FlatScheduler

    def __call__(self, rank: int, hosts: Hosts) -> Schedule:
        return self.schedule(rank, len(hosts))


def first_of_each(hosts: Sequence[int]) -> list[int]:
    """The first rank of each host, which speaks for it."""
    return [list(hosts).index(host) for host in dict.fromkeys(hosts)]


def among(schedule: Schedule, ranks: Sequence[int], early: int = 0) -> Schedule:
    """A schedule of a few as a part of a larger group's: these ranks do it, past the first `early` memories."""
    return tuple(
        Give(ranks[step.to], step.part)
        if isinstance(step, Give)
        else step._replace(source=ranks[step.source], early=step.early + early)
        for step in schedule
    )


def folded(rank: int, size: int, core: FlatScheduler) -> Schedule:
    """Let a schedule for powers of two serve any size.

    Ranks past the largest power of two first give their all to a partner within it, and are given
    the result at the end.
    """
    power = 1 << (size.bit_length() - 1)
    if rank >= power:
        partner = rank - power
        return (Give(partner), Take(partner, replace=True))
    partner = rank + power
    if partner >= size:
        return core(rank, power)
    return (Take(partner), *among(core(rank, power), range(size), early=1), Give(partner))
