"""Real et al. 2018, "Regularized evolution for image classifier architecture search": the oldest go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.populations import HIGH, LOW, NUM_EPOCHS, live, loss_alone
from support.simulated.weather import FEW, SEEDS


@pytest.mark.slow
@FEW
@given(num_workers=st.integers(2, 10), sample=st.integers(1, 4), seed=SEEDS)
def test_the_oldest_copy_one_with_a_better_score(num_workers: int, sample: int, seed: int) -> None:
    life = live(num_workers, seed, method="evolution", sample=sample)
    number = min(max(1, round(0.2 * num_workers)), num_workers // 2)
    badness, born = life.told("badness"), life.told("born")
    assert life.taken()
    for worker, source, epoch in life.taken():
        assert badness[epoch][source] < badness[epoch][worker]
        oldest = sorted(born[epoch], key=lambda each: (born[epoch][each], -badness[epoch][each], each))
        assert worker in oldest[:number]
    rates = [rate for each in life.rates.values() for rate in each]
    assert min(rates) >= LOW
    assert max(rates) <= HIGH


@pytest.mark.parametrize("num_workers", [2, 5, 7])
def test_everybody_is_reborn_in_its_turn_however_good_it_is(num_workers: int) -> None:
    life = live(num_workers, method="evolution")
    for epoch, born in enumerate(life.told("born")):
        assert min(born.values()) >= epoch - num_workers or epoch < num_workers
    last = life.told("born")[NUM_EPOCHS - 1]
    assert len(set(last.values())) == num_workers, "one in each tournament"


def test_a_sample_of_all_others_makes_the_best_the_parent() -> None:
    life = live(6, method="evolution", sample=99)
    badness = life.told("badness")
    assert all(source == min(badness[epoch], key=badness[epoch].__getitem__) for _, source, epoch in life.taken())


@pytest.mark.parametrize("seed", range(3))
def test_evolution_learns_better_than_the_values_that_it_began_with(seed: int) -> None:
    assert live(8, seed, method="evolution").loss < 0.2 * loss_alone()
