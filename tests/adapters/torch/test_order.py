"""The order of the data that all workers agree on without talking."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler, SubsetRandomSampler, TensorDataset

from weft.adapters.torch.order import same_order

DATA: Dataset[Any] = TensorDataset(torch.arange(20))


def shuffled(generator: torch.Generator | None = None) -> DataLoader[Any]:
    return DataLoader(DATA, batch_size=2, shuffle=True, generator=generator)


def test_workers_whose_random_states_differ_find_the_same_permutation() -> None:
    torch.manual_seed(1)
    first = same_order(shuffled(), seed=7, epoch=0)
    torch.manual_seed(2)
    assert same_order(shuffled(), seed=7, epoch=0) == first
    assert sorted(first) == list(range(20))


def test_every_epoch_and_every_seed_has_its_own_permutation() -> None:
    orders = [same_order(shuffled(), seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    assert len({tuple(order) for order in orders}) == 6


@pytest.mark.parametrize("own", [False, True])
def test_finding_it_leaves_the_workers_random_numbers_alone(own: bool) -> None:
    generator = torch.Generator().manual_seed(3) if own else None
    before: Any = torch.get_rng_state(), generator.get_state() if generator else None
    order = same_order(shuffled(generator), 0, 0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert generator is None or torch.equal(generator.get_state(), before[1])
    other = torch.Generator().manual_seed(4) if own else None
    assert order == same_order(shuffled(other), 0, 0), "whatever a generator of the user's own was seeded with"


def test_the_seed_that_torch_tells_stays_the_scripts_own() -> None:
    torch.manual_seed(11)
    order = same_order(shuffled(), 0, 0)
    assert torch.initial_seed() == 11
    assert len(order) == 20


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (SequentialSampler(range(20)), list(range(20))),
        (SubsetRandomSampler([3, 1, 4, 15]), [1, 3, 4, 15]),
        (RandomSampler(range(20), num_samples=7), None),
    ],
    ids=["sequential", "subset", "some"],
)
def test_the_loaders_own_sampler_says_which_samples(sampler: Any, expected: list[int] | None) -> None:
    order = same_order(DataLoader(DATA, batch_size=2, sampler=sampler), 0, 0)
    assert sorted(order) == (sorted(set(order)) if expected is None else expected)
    assert len(order) == len(sampler)
