"""The order of the data that all workers agree on without talking."""

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader


def same_order(loader: "DataLoader[Any]", seed: int, epoch: int) -> list[int]:
    """The order of an epoch that every worker finds for itself: the loader's own sampler, seeded alike."""
    generators = [g for g in (loader.generator, getattr(loader.sampler, "generator", None)) if g is not None]
    before = torch.get_rng_state(), [generator.get_state() for generator in generators]
    plain = random.getstate(), np.random.get_state()
    mixed = random.Random(f"order/{seed}/{epoch}").getrandbits(63)
    torch.manual_seed(mixed)
    random.seed(mixed)
    np.random.seed(mixed % 2**32)
    for generator in generators:
        generator.manual_seed(mixed)
    try:
        return [int(index) for index in loader.sampler]
    finally:
        torch.set_rng_state(before[0])
        random.setstate(plain[0])
        np.random.set_state(plain[1])
        for generator, state in zip(generators, before[1], strict=True):
            generator.set_state(state)
