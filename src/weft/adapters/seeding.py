"""Random numbers of each worker's own: a script that seeds all workers alike must not make them alike."""

import random

import numpy as np


def vary_by_rank(rank: int, salt: int = 0) -> int | None:
    """Give workers above 0 random numbers derived from what the script seeded; returns the new seed.

    Scripts seed every worker alike to build equal models; dropout masks and augmentations would then
    be equal, too. Worker 0 keeps its numbers, so a run of one worker equals the script alone.
    """
    if not rank:
        return None
    mixed = random.Random(f"rank/{random.getrandbits(32)}/{np.random.randint(2**31)}/{salt}/{rank}").getrandbits(32)
    np.random.seed(mixed)
    random.seed(mixed)
    return mixed
