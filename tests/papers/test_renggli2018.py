"""Renggli et al. 2018, "SparCML: high-performance sparse communication for machine learning"."""

import numpy as np

from weft.codecs import QSGD, Form, Nonzeros, TopK, Turn


def test_a_sum_of_sparse_vectors_becomes_dense_when_that_is_shorter() -> None:
    """Switch to a dense representation when the fill-in passes the break-even point."""
    rng, total, form, sizes = np.random.default_rng(0), np.zeros(10_000, np.float32), Form(10_000), []
    for _ in range(40):
        total[rng.permutation(10_000)[:500]] += 1
        sizes.append(len(Nonzeros().encode(total, None, form, Turn()).payload))
    kept = np.count_nonzero(total)
    assert sizes[0] < 500 * 6 + 24
    assert sizes[-1] == 8 + 4 * 10_000 < 6 * kept
    assert sizes == sorted(sizes)


def test_top16_of_512_in_4_bits_is_a_compression_of_over_40_times() -> None:
    """Top16_Q4: 16 of every bucket of 512, each in 4 bits."""
    codec, form = TopK(k_of_block=16, block=512) | QSGD(7), Form(1 << 20)
    assert form.num_bytes / codec.size(form) > 48
    assert codec.wants_feedback


def test_16_of_every_bucket_are_sent() -> None:
    values = np.random.default_rng(0).standard_normal(5120).astype(np.float32)
    said = np.zeros_like(values)
    codec = TopK(k_of_block=16, block=512)
    codec.decode(codec.encode(values, None, Form(5120), Turn()).payload, said, Form(5120))
    assert np.count_nonzero(said.reshape(10, 512), axis=1).tolist() == [16] * 10
