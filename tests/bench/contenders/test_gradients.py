"""The work of `weft bench codecs`."""

import numpy as np
import pytest

from weft.bench.codecs import NAMES
from weft.bench.contenders.gradients import ERRORS_MAX, CodecCase, compete, gradients, job_of
from weft.bench.serving import Task


def test_a_task_names_codec_size_and_way() -> None:
    assert job_of("topk-decode/64MiB") == CodecCase("topk", 1 << 24, True)
    assert job_of("topk/64KiB") == CodecCase("topk", 1 << 14, False)
    assert set(ERRORS_MAX) == set(NAMES)


def test_gradients_are_small_and_the_same_for_all() -> None:
    assert gradients(1000).tolist() == gradients(1000).tolist()
    assert gradients(100_000).std() == pytest.approx(1e-3, rel=0.02)


def test_a_round_trip_that_is_wrong_is_not_measured() -> None:
    values = gradients(1000)
    with pytest.raises(ArithmeticError, match=r"'fp16' is wrong by 1 of the norm, but by 0\.0004 at most"):
        compete(
            Task("none", "weft", "fp16/4KiB", 1), CodecCase("fp16", 1000, False), values, lambda: values, np.zeros_like
        )
