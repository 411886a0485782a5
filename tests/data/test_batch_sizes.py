"""How many samples a batch has, by what is in it."""

from typing import Any

import numpy as np
import pytest

from weft.data.batch_sizes import num_samples_in


@pytest.mark.parametrize(
    ("batch", "num_samples"),
    [
        (np.zeros((5, 2)), 5),
        ((np.zeros((5, 2)), np.zeros(5)), 5),
        ((np.zeros((5, 2)), np.zeros(5), np.zeros(())), 5),
        ({"words": "these", "inputs": np.zeros((5, 2)), "more": np.zeros((5, 1))}, 5),
        ([{"inputs": np.zeros((5, 2))}, np.zeros(7)], 5),
        (["one", "two", "three"], 3),
        ([["one", "two"], [1, 2]], 2),
        ([np.zeros((4, 4)), np.zeros((6, 2)), np.zeros((4, 1))], None),
        ((np.zeros((8, 3, 4, 4)), np.zeros((57, 6))), None),
        ({"images": np.zeros((8, 3, 4, 4)), "boxes": np.zeros((57, 6))}, None),
        ([], 0),
        (np.float64(3.0), None),
        ({"words": "these"}, None),
        ("words", None),
        (7, None),
        (object(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_first_dimension_of_the_first_array_or_the_length_of_a_list(batch: Any, num_samples: int | None) -> None:
    assert num_samples_in(batch) == num_samples
