"""Halving-doubling all-reduce: ever smaller halves swapped and summed, then ever larger ones spread."""

from weft.core.names import Part
from weft.core.schedule import Give, Schedule, Step, Take, folded


def halving_doubling(rank: int, size: int) -> Schedule:
    """2L log2 P + 2γmG(P-1)/P (the survey's reduce-scatter + gather). Sizes between powers of two fold."""
    return folded(rank, size, _halving_doubling)


def _halving_doubling(rank: int, size: int) -> Schedule:
    num_rounds = size.bit_length() - 1
    halving: list[Step] = []
    doubling: list[Step] = []
    index = 0
    for round_ in range(num_rounds):
        bit = num_rounds - 1 - round_
        partner = rank ^ (1 << bit)
        mine = 2 * index + (rank >> bit & 1)
        keep, give = Part(mine, 2 << round_), Part(mine ^ 1, 2 << round_)
        halving += [Give(partner, give), Take(partner, keep, early=round_)]
        doubling[:0] = [Give(partner, keep), Take(partner, give, replace=True, early=round_)]
        index = mine
    return (*halving, *doubling)
