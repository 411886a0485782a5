"""Ring all-reduce: parts travel around, first gathering their sum, then spreading it."""

from weft.core.names import Part
from weft.core.schedule import Give, Schedule, Step, Take


def ring(rank: int, size: int) -> Schedule:
    """2L(P-1) + 2γmG(P-1)/P (the survey's "pipeline"); optimal in bytes, P-1 latencies each way."""
    after, before = (rank + 1) % size, (rank - 1) % size
    steps: list[Step] = []
    for i in range(size - 1):
        steps.append(Give(after, Part((rank - i) % size, size)))
        steps.append(Take(before, Part((rank - i - 1) % size, size)))
    for i in range(size - 1):
        steps.append(Give(after, Part((rank + 1 - i) % size, size)))
        steps.append(Take(before, Part((rank - i) % size, size), replace=True))
    return tuple(steps)
