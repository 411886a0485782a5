"""Rounds of short blocks: in each round every contender runs once, in an order that chance decides."""

from collections.abc import Mapping
from random import Random
from typing import Protocol

GROWTH = 4


class Runs(Protocol):
    """What can run a block and say how long one repetition took."""

    def block(self, repeats: int) -> float: ...


def alternate(contenders: Mapping[str, Runs], num_rounds: int, block_s: float, seed: int = 0) -> dict[str, list[float]]:
    """Seconds of one repetition, for each contender a value of every round; the seed fixes the orders."""
    repeats = {name: settle(contender, block_s) for name, contender in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order, rng = list(contenders), Random(seed)
    for _ in range(num_rounds):
        rng.shuffle(order)
        for name in order:
            seconds[name].append(contenders[name].block(repeats[name]))
    return seconds


def settle(contender: Runs, block_s: float) -> int:
    """Find how many repetitions make a block of about this length. The first repetition, which imports, allocates and
    fills caches, does not count: a contender for which it takes longer would get shorter blocks, and colder ones."""
    contender.block(1)
    repeats = 1
    while (seconds := contender.block(repeats)) * repeats < block_s / GROWTH:
        repeats *= GROWTH
    return max(1, round(block_s / seconds))
