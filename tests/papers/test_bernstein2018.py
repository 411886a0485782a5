"""Bernstein et al. 2018, "signSGD: compressed optimisation for non-convex problems"."""

import numpy as np

from weft.codecs import Form, SignSGD, Turn


def votes(workers: np.ndarray) -> np.ndarray:
    form, total = Form(workers.shape[1], 8), np.zeros(workers.shape[1])
    for values in workers:
        SignSGD().add(SignSGD().encode(values, None, form, Turn()).payload, total, 1.0, form)
    return total


def test_the_sum_of_what_is_sent_is_the_sum_of_signs() -> None:
    """Algorithm 3: majority vote is the sign of the sum of the workers' signs."""
    workers = np.random.default_rng(0).standard_normal((5, 1000))
    np.testing.assert_array_equal(votes(workers), np.sign(workers).sum(0))


def test_a_majority_is_right_more_often_than_a_worker() -> None:
    """Theorem 2: with unimodal symmetric noise the vote reduces errors as averaging does."""
    workers = 0.3 + np.random.default_rng(0).standard_normal((27, 5000))
    alone, together = (workers[0] > 0).mean(), (votes(workers) > 0).mean()
    assert alone < 0.65
    assert together > 0.85


def test_one_bit_for_each_number_is_sent() -> None:
    assert SignSGD().size(Form(1 << 20)) == (1 << 20) // 8
