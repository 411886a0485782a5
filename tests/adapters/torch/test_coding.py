"""Codecs in torch operations, on tensors of the processor: the same payloads as codecs/."""

import numpy as np
import pytest
import torch

from weft.adapters.torch.coding import add, encode
from weft.codecs import BF16, DGC, FP16, QSGD, Codec, Form, Int8, OneBit, SignSGD, Threshold, TopK, Turn
from weft.core.errors import ConfigError

SAME = [FP16(), BF16(), SignSGD(), TopK(0.01), TopK(k_of_block=16), Threshold(1.0)]
ALIKE = [OneBit(), OneBit(64), Int8(), QSGD(), QSGD(1, 64)]
SIZES = (1, 7, 513, 70_001)


def inputs(size: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Values, some of which are not finite, and a residual; other blocks are larger or smaller."""
    rng = np.random.default_rng(size)
    scales = 2.0 ** (np.arange(size) // 4096 * 3 % 5)
    values, residual = ((rng.standard_normal(size) * scales).astype(dtype) for _ in range(2))
    values[rng.integers(size, size=size // 50)] = np.nan
    return values, residual


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("codec", SAME, ids=repr)
def test_payloads_and_residuals_are_the_same_byte_by_byte(codec: Codec, dtype: type) -> None:
    for size in SIZES:
        values, before = inputs(size, dtype)
        form, residual, other = Form(size, values.itemsize), before.copy(), torch.from_numpy(before.copy())
        expected = codec.encode(values, residual, form, Turn())
        coded = encode(codec, torch.from_numpy(values), other, form, Turn())
        np.testing.assert_array_equal(coded.payload.numpy(), expected.payload)
        np.testing.assert_array_equal(other.numpy(), residual)
        assert coded.num_not_finite == expected.num_not_finite


@pytest.mark.parametrize("codec", SAME + ALIKE, ids=repr)
def test_either_decodes_what_the_other_encoded(codec: Codec) -> None:
    for size in SIZES:
        values, before = inputs(size, np.float32)
        form, residual = Form(size), torch.from_numpy(before.copy())
        payload = encode(codec, torch.from_numpy(values), residual, form, Turn(draw=5)).payload
        codec.check(payload.numpy(), form)
        said, again = np.zeros(size, np.float32), torch.ones(size)
        codec.decode(payload.numpy(), said, form)
        add(codec, payload, again, 2.0, form)
        np.testing.assert_allclose(again.numpy(), 1 + 2 * said, rtol=1e-5, atol=1e-4)
        total = np.where(np.isfinite(values), values + before, before)
        np.testing.assert_allclose(residual.numpy(), total - said, rtol=1e-5, atol=1e-4)


def test_without_a_residual_nothing_is_left() -> None:
    values = torch.tensor([1.0, -2.0, float("inf")])
    coded = encode(TopK(0.5), values, None, Form(3), Turn())
    assert coded.num_not_finite == 1
    assert values.tolist() == [1.0, -2.0, float("inf")]


def test_means_are_the_same_but_for_the_last_digits() -> None:
    values, form, said, expected = inputs(5000, np.float32)[1], Form(5000), *np.zeros((2, 5000), np.float32)
    OneBit().decode(encode(OneBit(), torch.from_numpy(values), None, form, Turn()).payload.numpy(), said, form)
    OneBit().decode(OneBit().encode(values, None, form, Turn()).payload, expected, form)
    np.testing.assert_allclose(said, expected, rtol=1e-5)


def test_rounding_by_chance_is_unbiased() -> None:
    values = torch.from_numpy(np.random.default_rng(0).standard_normal(64)).repeat(5000)
    form, said = Form(len(values), 8), torch.zeros_like(values)
    add(QSGD(3, 64), encode(QSGD(3, 64), values, None, form, Turn(draw=1)).payload, said, 1.0, form)
    draws = said.view(5000, 64)
    bounds = 4 * draws.std(0) / 5000**0.5 + 1e-9
    assert ((draws.mean(0) - values[:64]).abs() <= bounds).all()


def test_what_is_not_made_of_torch_operations_is_refused() -> None:
    with pytest.raises(ConfigError, match="'dgc' is not made of torch operations"):
        encode(DGC(), torch.ones(3), None, Form(3), Turn())
