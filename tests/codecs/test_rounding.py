"""What int8 and qsgd have in common."""

import numpy as np
import pytest

from weft.codecs import QSGD, Form, Turn
from weft.codecs.rounding import check_steps, lattice, nothing, step_max
from weft.core.errors import CodecError


def test_another_draw_rounds_otherwise_and_the_same_draw_the_same() -> None:
    values = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    one, same, other = (QSGD().encode(values, None, Form(512), Turn(draw=draw)).payload for draw in (1, 1, 2))
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


def test_steps_that_are_negative_or_not_finite_are_refused() -> None:
    for step in (-1.0, np.nan, np.inf, 3e38):
        with pytest.raises(CodecError, match="the scale of block 1 is"):
            check_steps(np.array([1.0, step], np.float32), levels=7)


def test_multiples_of_the_longest_step_are_finite() -> None:
    for levels in (1, 7, 127):
        assert np.isfinite(np.float32(step_max(np.dtype(np.float32), levels)) * np.float32(levels))


def test_places_begin_draws_that_are_all_different() -> None:
    assert len(set(lattice(65536).tolist())) == 65536
    assert nothing(Form(3, 8)).dtype == np.float64
