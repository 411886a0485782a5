"""Every codec keeps the promises of codecs/codec.py, for arrays of all sizes and numbers of all kinds."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.oracles.codecs_in_numpy import decoded, summed

from weft.codecs import (
    BF16,
    DGC,
    FP8,
    FP16,
    QSGD,
    Codec,
    Factors,
    Form,
    Int8,
    Nonzeros,
    OneBit,
    PowerSGD,
    RandomK,
    SignSGD,
    TernGrad,
    Threshold,
    TopK,
    Turn,
)
from weft.codecs.codec import Array
from weft.core.errors import CodecError, ConfigError

CODECS = [
    FP16(),
    BF16(),
    FP8(),
    Int8(),
    QSGD(),
    QSGD(1, 64),
    QSGD(30, 1024),
    TernGrad(),
    TernGrad(1.0, 64),
    OneBit(),
    OneBit(512, feedback=False),
    SignSGD(),
    TopK(),
    TopK(0.3),
    TopK(k_of_block=16),
    RandomK(0.1),
    Threshold(1.0),
    Nonzeros(),
    DGC(),
    DGC(0.01, warmup_steps=0),
    PowerSGD(),
    Factors(),
    TopK(k_of_block=16) | QSGD(),
    TopK(0.05) | FP16(),
    RandomK(0.1) | Int8(),
    Threshold(1.0) | OneBit(),
    Threshold(0.5) | TernGrad(),
]
SIZES = (1, 2, 63, 64, 65, 511, 512, 513)
LARGE = (65535, 65536, 65537)
TURN = Turn(clock=3, draw=12345678901234567890, common=42)


def inputs(number: int, dtype: type) -> Iterator[tuple[str, Array, Array]]:
    """Values and residuals of all kinds."""
    rng = np.random.default_rng(number)
    values: Any
    residual: Any
    values, residual = (rng.standard_normal(number).astype(dtype) for _ in range(2))
    broken = values.copy()
    broken[rng.integers(number, size=1 + number // 9)] = rng.choice([np.nan, np.inf, -np.inf], 1 + number // 9)
    yield "random", values, residual
    yield "not finite", broken, residual
    if number in LARGE:
        scales: Any = (2.0 ** (np.arange(number) // 4096 * 3 % 5)).astype(dtype)
        yield "larger and smaller blocks", values * scales, residual * scales
        return
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    yield "constant", np.full(number, 0.1, dtype), np.zeros(number, dtype)
    yield "zero", np.zeros(number, dtype), np.zeros(number, dtype)
    yield "denormal", (rng.integers(-9, 9, number) * tiny).astype(dtype), np.zeros(number, dtype)
    yield "small", values * dtype(1e-30), residual * dtype(1e-30)
    yield "huge", np.sign(values) * dtype(huge), residual
    yield "nothing finite", np.full(number, np.nan, dtype), residual
    yield "whole", np.rint(values), np.zeros(number, dtype)


def form_of(values: Array) -> Form:
    """Two matrices and a vector, with gaps, where there is room for them."""
    tensors = ((0, (16, 16)), (300, (8, 2, 5)), (400, (100,))) if len(values) > 500 else ()
    return Form(len(values), values.itemsize, tensors)


def knows_huge(codec: Codec) -> bool:
    """Products of the largest numbers are not finite."""
    return not isinstance(codec, PowerSGD)


def tolerance(codec: Codec, dtype: type) -> float:
    """Means and products depend on the order of sums in their last digits; all else is the same bit by bit."""
    adds = any(name in repr(codec) for name in ("PowerSGD", "OneBit", "TernGrad"))
    return adds * (1e-5 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("sizes", [SIZES, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"])
def test_what_is_decoded_is_what_plain_numpy_says_and_the_rest_is_in_the_residual(
    codec: Codec, dtype: type, sizes: tuple[int, ...]
) -> None:
    for size in sizes:
        for name, values, before in inputs(size, dtype):
            if name == "huge" and not knows_huge(codec):
                continue
            case, form, residual = (size, name), form_of(values), before.copy()
            encoded = codec.encode(values, residual, form, TURN)
            codec.check(encoded.payload, form, TURN.clock)
            longest = codec.size(form, TURN.clock)
            assert len(encoded.payload) <= longest if codec.varies else len(encoded.payload) == longest, case
            total, is_bad = summed(values, before)
            said = np.full_like(values, np.nan)
            codec.decode(encoded.payload, said, form)
            expected = decoded(codec, values, before, TURN, form)
            bound = (
                np.abs(total).max() * tolerance(codec, dtype)
                + 8 * isinstance(codec, PowerSGD) * np.finfo(dtype).smallest_subnormal
            )
            assert np.abs(said - expected).max() <= bound, case
            np.testing.assert_array_equal(residual, total - said, str(case))
            assert encoded.num_not_finite == is_bad.sum(), case


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_without_a_residual_the_same_is_said_of_the_values_alone(codec: Codec) -> None:
    for size in (1, 513):
        for _, values, _ in list(inputs(size, np.float32))[:3]:
            form, said, again = form_of(values), *np.zeros((2, size), np.float32)
            alone = codec.encode(values, None, form, TURN)
            with_zeros = codec.encode(values, np.zeros(size, np.float32), form, TURN)
            codec.decode(alone.payload, said, form)
            codec.decode(with_zeros.payload, again, form)
            np.testing.assert_array_equal(said, again)
            assert alone.num_not_finite == with_zeros.num_not_finite


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_values_are_not_touched_and_payloads_may_be_locked_and_begin_anywhere(codec: Codec) -> None:
    _, values, residual = next(inputs(513, np.float32))
    form, kept = form_of(values), values.copy()
    payload = codec.encode(values, residual, form, TURN).payload
    moved = np.empty(len(payload) + 1, np.uint8)[1:]
    moved[:] = payload
    moved.flags.writeable = False
    one, other = np.zeros((2, 513), np.float32)
    codec.check(moved, form, TURN.clock)
    codec.decode(payload, one, form)
    codec.decode(moved, other, form)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_adding_adds_in_proportion(codec: Codec) -> None:
    _, values, residual = next(inputs(513, np.float64))
    form, into, said = form_of(values), values.copy(), np.zeros(513)
    payload = codec.encode(values, residual, form, TURN).payload
    codec.decode(payload, said, form)
    codec.add(payload, into, -0.5, form)
    np.testing.assert_allclose(into, values - 0.5 * said, atol=1e-12)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_broken_payloads_are_refused_or_say_something_finite(codec: Codec) -> None:
    rng = np.random.default_rng(7)
    _, values, residual = next(inputs(513, np.float32))
    form, refusals = form_of(values), []
    payload = codec.encode(values, residual, form, TURN).payload
    for attempt in range(400):
        broken = payload.copy()
        if attempt % 4 == 0:
            broken = broken[: rng.integers(len(payload))] if attempt % 8 else np.append(broken, np.uint8(0))
        else:
            places = rng.integers(min(len(payload), 16 if attempt % 4 == 1 else len(payload)), size=1 + attempt % 3)
            broken[places] = rng.choice([0, 1, 127, 128, 255, *rng.integers(256, size=3)], len(places))
        guarded = np.full(513 + 128, 7.0, np.float32)
        try:
            codec.check(broken, form, TURN.clock)
        except CodecError as error:
            refusals.append(str(error))
            continue
        with np.errstate(over="ignore"):
            codec.decode(broken, guarded[64:-64], form)
        assert np.isfinite(guarded).all()
        assert (guarded[:64] == 7).all()
        assert (guarded[-64:] == 7).all()
    assert len(refusals) >= 50
    assert all(refusal.endswith(".") for refusal in refusals)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_codecs_are_comparable_and_take_float32_and_float64_only(codec: Codec) -> None:
    assert codec == type(codec)(**vars(codec))
    assert hash(codec) == hash(type(codec)(**vars(codec)))
    codec.prepare(4)
    codec.check_form(Form(8, 8))
    with pytest.raises(ConfigError, match="numbers of 2 bytes cannot be encoded, but only float32 and float64"):
        codec.check_form(Form(8, 2))


@pytest.mark.parametrize("codec", [TopK(), QSGD(), TernGrad(), OneBit(), FP16(), DGC(0.001, warmup_steps=0)], ids=repr)
def test_a_million_numbers_and_three_keep_the_same_promises(codec: Codec) -> None:
    values, before = np.random.default_rng(1).standard_normal((2, 1_000_003)).astype(np.float32)
    form, residual, said = Form(1_000_003), before.copy(), np.zeros(1_000_003, np.float32)
    payload = codec.encode(values, residual, form, TURN).payload
    codec.check(payload, form, TURN.clock)
    codec.decode(payload, said, form)
    assert len(payload) == codec.size(form, TURN.clock)
    np.testing.assert_array_equal(residual, values + before - said)
    expected = decoded(codec, values, before, TURN, form)
    np.testing.assert_allclose(said, expected, rtol=tolerance(codec, np.float32))
