"""What one rank does in a lowered collective: a fixed list of gives and takes.

A lowering is then a pure function (rank, size) -> schedule; one machine runs them all.
"""

from collections.abc import Callable
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
Scheduler = Callable[[int, int], Schedule]


def folded(rank: int, size: int, core: Scheduler) -> Schedule:
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
    inner = tuple(step._replace(early=step.early + 1) if isinstance(step, Take) else step for step in core(rank, power))
    return (Take(partner), *inner, Give(partner))
