"""Only numbers of some size."""

import numpy as np
import pytest

from weft.codecs import Form, Threshold, Turn
from weft.core.errors import ConfigError


def test_small_numbers_add_up_until_they_are_sent() -> None:
    residual, said = np.zeros(2), np.zeros((3, 2))
    for step in range(3):
        payload = Threshold(1.0).encode(np.array([0.5, 0.25]), residual, Form(2, 8), Turn(step)).payload
        Threshold(1.0).decode(payload, said[step], Form(2, 8))
    assert said.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert residual.tolist() == [0.5, 0.75]


def test_a_threshold_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="t of 'threshold' is 0, but it is a finite number above 0"):
        Threshold(0)
