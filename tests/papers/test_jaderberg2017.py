"""Jaderberg et al. 2017, "Population based training of neural networks": exploit good models, explore around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulated.populations import EPOCH_STEPS, FIRST, HIGH, LOW, live, loss_alone
from support.simulated.weather import FEW, SEEDS


@pytest.mark.slow
@FEW
@given(num_workers=st.integers(2, 12), fraction=st.sampled_from([0.1, 0.2, 0.5]), seed=SEEDS)
def test_a_worker_only_copies_from_one_with_a_better_score_the_worst_from_the_best(
    num_workers: int, fraction: float, seed: int
) -> None:
    life = live(num_workers, seed, fraction=fraction)
    number = min(max(1, round(fraction * num_workers)), num_workers // 2)
    told = life.told("badness")
    assert life.taken()
    for worker, source, epoch in life.taken():
        ranked = sorted(told[epoch], key=lambda each: (told[epoch][each], each))
        assert told[epoch][source] < told[epoch][worker]
        assert source in ranked[:number]
        assert worker in ranked[-number:]


@pytest.mark.slow
@FEW
@given(num_workers=st.integers(2, 8), perturb=st.sampled_from([0.2, 0.9]), seed=SEEDS)
def test_values_are_perturbed_within_their_ranges(num_workers: int, perturb: float, seed: int) -> None:
    life = live(num_workers, seed, perturb=perturb, spread=100.0)
    rates = [rate for each in life.rates.values() for rate in each]
    assert min(rates) >= LOW
    assert max(rates) <= HIGH
    assert life.rates[0][0] == FIRST
    assert len({each[0] for each in life.rates.values()}) > 1, "all but the first begin elsewhere"


@pytest.mark.parametrize("seed", range(5))
def test_who_copies_goes_on_with_the_sources_value_a_fifth_larger_or_smaller_and_with_its_parameters(seed: int) -> None:
    life = live(5, seed)
    for worker, source, epoch in life.taken():
        last, first = (epoch + 1) * EPOCH_STEPS - 1, (epoch + 1) * EPOCH_STEPS
        if first >= len(life.rates[worker]):
            continue
        value = life.rates[source][last]
        assert any(life.rates[worker][first] == pytest.approx(value * factor) for factor in (0.8, 1.2))
        begun = life.losses[source][epoch]
        expected = begun * (1 - life.rates[worker][first]) ** (2 * EPOCH_STEPS)
        assert life.losses[worker][epoch + 1] == pytest.approx(expected), "three steps on from where the source was"


def test_between_tournaments_values_stay_and_workers_that_do_well_are_left_alone() -> None:
    life = live(6, period=4)
    copied = {(worker, epoch) for worker, _, epoch in life.taken()}
    assert {epoch for _, epoch in copied} == {3, 7, 11}
    for worker, rates in life.rates.items():
        changes = {step for step in range(1, len(rates)) if rates[step] != rates[step - 1]}
        assert changes == {(epoch + 1) * EPOCH_STEPS for w, epoch in copied if w == worker and epoch < 11}


@pytest.mark.parametrize("seed", range(3))
def test_a_population_learns_better_than_the_values_that_it_began_with(seed: int) -> None:
    life = live(8, seed)
    assert life.loss < 0.1 * loss_alone()
    assert life.loss == min(each[-1] for each in life.losses.values())
