"""Binomial-tree all-reduce: sums climb to rank 0, the result comes down."""

from weft.core.schedule import Give, Schedule, Step, Take


def tree(rank: int, size: int) -> Schedule:
    """2L log2 P + 2γmG log2 P; few messages, but the whole bucket on every edge."""
    children = []
    distance = 1
    while distance < size and not rank & distance:
        if rank + distance < size:
            children.append(rank + distance)
        distance *= 2
    climb: list[Step] = [Take(child, early=i) for i, child in enumerate(children)]
    if rank:
        parent = rank - (rank & -rank)
        climb += [Give(parent), Take(parent, replace=True, early=len(children))]
    return (*climb, *(Give(child) for child in reversed(children)))
