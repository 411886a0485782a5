"""The order of the data of an epoch, which all workers compute alike without communication."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from weft.adapters.alike import Alike


class TorchAlike(Alike):
    """`Alike` for torch's random numbers, too, and for generators that a loader and its samplers use."""

    def __init__(self, seed: int, epoch: int, generators: Sequence[torch.Generator] = ()) -> None:
        super().__init__(seed, epoch)
        self._generators = generators

    def _states(self) -> Any:
        return super()._states(), torch.get_rng_state(), [generator.get_state() for generator in self._generators]

    def _restore(self, states: Any) -> None:
        plain, torchs, generators = states
        super()._restore(plain)
        torch.set_rng_state(torchs)
        for generator, state in zip(self._generators, generators, strict=True):
            generator.set_state(state)

    def _begin(self, seed: int) -> None:
        super()._begin(seed)
        torch.manual_seed(seed)
        for generator in self._generators:
            generator.manual_seed(seed)


def generators_of(data: Any) -> list[torch.Generator]:
    """The generators that a loader, or another iterable, and its samplers use."""
    batches = getattr(data, "batch_sampler", None)
    who = (data, getattr(data, "sampler", None), batches, getattr(batches, "sampler", None))
    found = {id(g): g for each in who if isinstance(g := getattr(each, "generator", None), torch.Generator)}
    return list(found.values())


def alike_for(data: Any, seed: int, epoch: int) -> TorchAlike:
    """The random numbers with which all workers read a loader, sampler or other iterable alike."""
    return TorchAlike(seed, epoch, generators_of(data))


def same_order(loader: "DataLoader[Any]", seed: int, epoch: int) -> list[int]:
    """The order of an epoch, from the loader's own sampler with the same seed on every worker."""
    with alike_for(loader, seed, epoch):
        return [int(index) for index in loader.sampler]
