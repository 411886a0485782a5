"""Gupta et al. 2015, "Deep learning with limited numerical precision": stochastic rounding."""

import numpy as np
from support.oracles.compressed import many_draws, within_standard_errors

from weft.codecs import Int8

VALUES = np.random.default_rng(0).standard_normal(64)


def test_the_expected_rounding_error_is_zero() -> None:
    draws = many_draws(Int8(64), VALUES, 10_000)
    assert within_standard_errors(draws, VALUES)


def test_a_number_goes_to_one_of_its_two_neighbours_the_likelier_the_nearer() -> None:
    draws, step = many_draws(Int8(64), VALUES, 10_000), np.abs(VALUES).max() / 127
    below = np.floor(VALUES / step) * step
    share = (VALUES - below) / step
    assert (np.minimum(np.abs(draws - below), np.abs(draws - below - step)) < 1e-9).all()
    assert (
        np.abs((draws > below + step / 2).mean(0) - share) <= 4 * np.sqrt(share * (1 - share) / 10_000) + 1e-6
    ).all()
