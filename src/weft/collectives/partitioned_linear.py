"""Partitioned linear all-reduce: every rank owns a part, which is summed along a line to it and handed back."""

from weft.core.names import Part
from weft.core.schedule import Give, Schedule, Step, Take

FROM_LEFT, FROM_RIGHT = 0, 1
"""The memories for early messages: each part comes from each side at most once."""


def partitioned_linear(rank: int, size: int) -> Schedule:
    """2(P-1) cycles of L + γmG/P, where every two neighbours have a link of their own (Zou et al., VLDB 2014).

    Mariana's schedule for GPUs behind PCIe switches, as it is read here: ranks form a line and speak to their
    neighbours only, so no copy has to cross the machine from one end to the other, as a ring's does. A bucket has
    as many parts as there are ranks, and rank p owns part p. In P-1 cycles each part is summed along the line, from
    both ends, to its owner; in as many it is handed back to both ends. The parts with the longest way begin
    first, so all reach their owners in the same cycle, and no link carries two parts at a time in one direction.
    """
    cycles = sorted([*_collected(rank, size), *_handed_back(rank, size)], key=lambda entry: entry[0])
    return tuple(step for _, step in cycles)


Entry = tuple[tuple[int, bool], Step]
"""A step, and when it happens: its cycle; a rank gives before it takes what others give in the same cycle."""


def _collected(rank: int, size: int) -> list[Entry]:
    """Part p leaves rank 0 in cycle size-1-p, and the other end in cycle p, one rank in each cycle."""
    entries: list[Entry] = []
    for part in (Part(which, size) for which in range(size)):
        from_left, from_right = size - 1 - part.which + rank, part.which + size - 1 - rank
        if rank < part.which:
            entries.append(((from_left, False), Give(rank + 1, part)))
        if rank > part.which:
            entries.append(((from_right, False), Give(rank - 1, part)))
        if 0 < rank <= part.which:
            entries.append(((from_left - 1, True), Take(rank - 1, part, early=FROM_LEFT)))
        if part.which <= rank < size - 1:
            entries.append(((from_right - 1, True), Take(rank + 1, part, early=FROM_RIGHT)))
    return entries


def _handed_back(rank: int, size: int) -> list[Entry]:
    """Each part leaves its owner in cycle size-1, both ways."""
    entries: list[Entry] = []
    for part in (Part(which, size) for which in range(size)):
        cycle = size - 1 + abs(rank - part.which)
        if part.which <= rank < size - 1:
            entries.append(((cycle, False), Give(rank + 1, part)))
        if 0 < rank <= part.which:
            entries.append(((cycle, False), Give(rank - 1, part)))
        if rank > part.which:
            entries.append(((cycle - 1, True), Take(rank - 1, part, replace=True, early=FROM_LEFT)))
        if rank < part.which:
            entries.append(((cycle - 1, True), Take(rank + 1, part, replace=True, early=FROM_RIGHT)))
    return entries
