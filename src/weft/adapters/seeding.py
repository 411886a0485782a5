"""Gives each worker random numbers of its own, although the script seeds all workers alike."""

import random

import numpy as np


def vary_by_rank(rank: int, seed: int) -> None:
    """Give workers above 0 random numbers derived from what the script seeded, and from the run's seed.

    Scripts seed every worker alike to build equal models; dropout masks and augmentations would then
    be equal, too. Worker 0 keeps its numbers, so a run of one worker equals the script alone. Python's follow from
    Python's and numpy's from numpy's: a run repeats in what its script has seeded, whatever it has not.
    """
    if rank:
        random.seed(seed_of(rank, seed, random.getrandbits(32)))
        np.random.seed(seed_of(rank, seed, int(np.random.randint(2**31))))


def seed_of(rank: int, seed: int, seeded: int) -> int:
    """The seed of worker `rank`, derived from the run's seed and from `seeded`, which the script gave all workers."""
    return random.Random(f"rank/{seed}/{seeded}/{rank}").getrandbits(32)
