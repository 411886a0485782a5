"""Random numbers of each worker's own."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from weft.adapters.seeding import seed_of, vary_by_rank


@pytest.fixture(autouse=True)
def _states_are_put_back() -> Iterator[None]:
    before = random.getstate(), np.random.get_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])


def drawn(rank: int, run: int = 0, seed: int = 5, numpys: int = 5) -> tuple[float, float]:
    """What a worker draws after a script that seeds all workers alike."""
    random.seed(seed)
    np.random.seed(numpys)
    vary_by_rank(rank, run)
    return random.random(), float(np.random.rand())


def test_worker_0_keeps_the_numbers_that_its_script_seeded() -> None:
    assert drawn(0) == (random.Random(5).random(), np.random.RandomState(5).rand())


def test_every_other_worker_gets_numbers_of_its_own() -> None:
    draws = [(*drawn(rank), seed_of(rank, 0, 5)) for rank in range(8)]
    for of_one_source in zip(*draws, strict=True):
        assert len(set(of_one_source)) == 8


def test_they_follow_from_the_scripts_seed_the_runs_and_the_rank_only() -> None:
    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(3, run=1)
    assert drawn(3) != drawn(3, seed=6)
    assert seed_of(3, 0, 5) not in (seed_of(3, 1, 5), seed_of(3, 0, 6))


def test_what_a_script_has_seeded_repeats_whatever_it_has_not() -> None:
    first, second = drawn(3, seed=5), drawn(3, seed=6)
    assert (first[0] != second[0], first[1] == second[1]) == (True, True)
    first, second = drawn(3, numpys=5), drawn(3, numpys=6)
    assert (first[0] == second[0], first[1] != second[1]) == (True, True)
