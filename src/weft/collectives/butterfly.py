"""Butterfly (recursive doubling) all-reduce: whole buckets swapped with partners ever farther away."""

from weft.core.schedule import Give, Schedule, Step, Take, folded


def butterfly(rank: int, size: int) -> Schedule:
    """L log2 P + γmG log2 P; the fewest latencies, for small buckets. Sizes between powers of two fold."""
    return folded(rank, size, _butterfly)


def _butterfly(rank: int, size: int) -> Schedule:
    steps: list[Step] = []
    for round_ in range(size.bit_length() - 1):
        partner = rank ^ (1 << round_)
        steps += [Give(partner), Take(partner, early=round_)]
    return tuple(steps)
