"""A tensor in coded form: its bytes, its flags, and the arithmetic that needs no array of its size."""

import numpy as np
import pytest

from weft.codecs import FP16, QSGD, Codec, Form, OneBit, PowerSGD, RandomK, TopK, Turn
from weft.core.errors import CodecError
from weft.core.names import Bucket, Part
from weft.store.coded import Coded, Meter, Shape, coded_bytes_max, encode, received, shape_of

FLAGGED = Bucket(12, 4, tensors=((0, (2, 3)), (8, (3,))), flagged=True)
"""A matrix of 6 and its flag, a gap, a vector of 3 and its flag."""
PLAIN = Shape(Form(8), ())


def numbers(size: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def coded(codec: Codec, source: np.ndarray, shape: Shape = PLAIN, residual: np.ndarray | None = None) -> Coded:
    return encode("push", codec, shape, source, residual, Turn(), None, Meter())


def test_a_bucket_has_the_form_of_its_tensors_and_a_part_is_a_vector_with_its_own_flags() -> None:
    assert shape_of(FLAGGED, None) == Shape(Form(12, 4, FLAGGED.tensors), (6, 11))
    assert shape_of(FLAGGED, Part(0, 2)) == Shape(Form(6, 4), ())
    assert shape_of(FLAGGED, Part(1, 2)) == Shape(Form(6, 4), (0, 5))
    assert shape_of(Bucket(4, 8), None) == Shape(Form(4, 8), ())


def test_flags_are_filled_up_so_that_what_follows_is_aligned() -> None:
    sizes = [Shape(Form(9, itemsize), tuple(range(count))).flag_bytes for itemsize in (4, 8) for count in range(4)]
    assert sizes == [0, 8, 8, 16, 0, 8, 16, 24]
    assert shape_of(FLAGGED, None).size(FP16()) == 8 + FP16().size(Form(12))


def test_flags_travel_as_they_are_whatever_the_codec_does_to_the_rest() -> None:
    source = numbers(12)
    source[[6, 11]] = 1.0, 0.25
    shape, into = shape_of(FLAGGED, None), np.full(12, 9.0, np.float32)
    said = coded(TopK(0.1), source, shape)
    assert said.flags.tolist() == [1.0, 0.25]
    assert source[[6, 11]].tolist() == [1.0, 0.25], "the source keeps them"
    said.add_to(into, 0.0, 1.0, Meter())
    assert into[[6, 11]].tolist() == [1.0, 0.25]
    assert np.count_nonzero(into) == 2 + 2
    said.add_to(into, 0.5, 2.0, Meter())
    assert into[[6, 11]].tolist() == [2.5, 0.625]


def test_flags_have_no_residual() -> None:
    source, residual = numbers(12), numbers(12, 1)
    coded(TopK(0.1), source, shape_of(FLAGGED, None), residual)
    assert residual[[6, 11]].tolist() == [0, 0]


@pytest.mark.parametrize("codec", [TopK(0.3), OneBit(), QSGD(), FP16()], ids=repr)
def test_it_is_added_in_proportion_and_decoded_into_a_fresh_array(codec: Codec) -> None:
    said = coded(codec, numbers())
    alone, into = said.decoded(Meter()), np.ones(8, np.float32)
    said.add_to(into, 0.5, -2.0, Meter())
    np.testing.assert_allclose(into, 0.5 - 2.0 * alone, rtol=1e-6)


def test_what_arrives_is_what_was_sent() -> None:
    source = numbers(12)
    shape = shape_of(FLAGGED, None)
    sent = coded(TopK(0.3), source, shape)
    raw = sent.raw()
    assert len(raw) == sent.nbytes == shape.size(TopK(0.3))
    came = received("push", TopK(0.3), shape, raw, 0)
    np.testing.assert_array_equal(came.decoded(Meter()), sent.decoded(Meter()))
    assert coded(TopK(0.3), numbers()).raw() is not raw


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw[:7], "a payload of 'push' has 7 bytes, fewer than its 2 flags."),
        (lambda raw: raw[:-1], "a payload has 43 bytes, but 12 numbers become 44."),
        (
            lambda raw: np.concatenate([np.array([np.nan, 1], np.float32).view(np.uint8), raw[8:]]),
            "a payload of 'push' has a flag that is not finite.",
        ),
    ],
    ids=["short", "shorter", "flag"],
)
def test_what_cannot_be_right_is_refused(change: object, message: str) -> None:
    shape = shape_of(FLAGGED, None)
    raw = coded(FP16(), numbers(12), shape).raw()
    size = shape.size(FP16()) - 8
    with pytest.raises(CodecError) as refused:
        received("push", FP16(), shape, change(raw), 0)  # type: ignore[operator]
    assert str(refused.value) == message.replace("43", str(size - 1)).replace("44", str(size))


def test_what_adds_up_is_merged_without_being_decoded() -> None:
    codec = RandomK(0.5)
    one, other = (coded(codec, numbers(seed=seed)) for seed in (1, 2))
    merged = one.merged(0.5, other, 2.0)
    np.testing.assert_allclose(
        merged.decoded(Meter()), 0.5 * one.decoded(Meter()) + 2.0 * other.decoded(Meter()), rtol=1e-6
    )
    np.testing.assert_allclose(one.merged(0.25, None, 0.0).decoded(Meter()), 0.25 * one.decoded(Meter()), rtol=1e-6)


def test_random_places_of_another_clock_cannot_be_merged() -> None:
    def said(clock: int) -> Coded:
        return encode("push", RandomK(0.5), PLAIN, numbers(), None, Turn(clock), None, Meter())

    assert said(1).can_merge(said(1))
    assert not said(1).can_merge(said(2))
    assert not said(1).can_merge(coded(RandomK(0.25), numbers()))
    assert not coded(TopK(0.5), numbers()).can_merge(coded(TopK(0.5), numbers()))


def test_merging_merges_flags_and_leaves_both_as_they_were() -> None:
    shape = shape_of(FLAGGED, None)
    one, other = (coded(RandomK(0.5), np.full(12, value, np.float32), shape) for value in (1.0, 3.0))
    before = one.raw().copy(), other.raw().copy()
    assert one.merged(0.5, other, 0.5).flags.tolist() == [2.0, 2.0]
    np.testing.assert_array_equal(one.raw(), before[0])
    np.testing.assert_array_equal(other.raw(), before[1])


def test_a_copy_has_bytes_of_its_own_and_keeps_what_was_given() -> None:
    said = coded(TopK(0.3), numbers())
    given = np.zeros(3, np.uint8)
    twin = said.with_given(given).copy()
    said.payload[:] = 0
    assert twin.payload.any()
    assert twin.given is given
    assert said.given is None


def test_numbers_that_are_not_finite_are_counted_and_become_0_and_do_not_reach_the_residual() -> None:
    source, residual, meter = numbers(), numbers(seed=1), Meter()
    source[[2, 5]] = np.nan, -np.inf
    kept = residual[[2, 5]].copy()
    said = encode("push", TopK(0.25), PLAIN, source, residual, Turn(), None, meter)
    assert meter.num_not_finite == 2
    assert np.isfinite(said.decoded(meter)).all()
    assert np.isfinite(residual).all()
    np.testing.assert_array_equal(residual[[2, 5]], kept)
    assert source[[2, 5]].tolist() == [0.0, 0.0]


def test_the_meter_counts_bytes_and_seconds() -> None:
    meter = Meter()
    said = encode("push", OneBit(), PLAIN, numbers(), None, Turn(), None, meter)
    said.decoded(meter)
    assert (meter.bytes_before, meter.bytes_after, meter.num_not_finite) == (32, said.nbytes, 0)
    assert meter.encode_s > 0
    assert meter.decode_s > 0


def test_the_most_of_a_bucket_is_that_of_the_largest_code() -> None:
    buckets, codecs = (Bucket(100), FLAGGED), (FP16(), TopK(0.1), PowerSGD())
    most = coded_bytes_max(codecs, buckets)
    assert most == tuple(max(shape_of(bucket, None).size(codec) for codec in codecs) for bucket in buckets)
    assert coded_bytes_max((), buckets) == ()


def test_one_of_another_size_is_refused_before_any_kernel_reads_it() -> None:
    said = coded(OneBit(), numbers())
    with pytest.raises(CodecError, match="a coded tensor of 8 numbers was added to one of 40"):
        said.add_to(np.zeros(40, np.float32), 1.0, 1.0, Meter())


def test_flags_are_decoded_over_whatever_stood_there() -> None:
    source = numbers(12)
    source[[6, 11]] = 1.0, 0.0
    into = np.full(12, np.nan, np.float32)
    coded(FP16(), source, shape_of(FLAGGED, None)).add_to(into, 0.0, 1.0, Meter())
    assert into[[6, 11]].tolist() == [1.0, 0.0]


def test_without_a_residual_the_source_is_left_as_it_is() -> None:
    source = numbers()
    source[2] = np.nan
    coded(FP16(), source)
    assert np.isnan(source[2])
