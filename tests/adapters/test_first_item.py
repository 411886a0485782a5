"""A digest of the first item of a stream."""

from typing import Any

import numpy as np
import pytest
import torch

from weft.adapters.first_item import digest_of_item


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.arange(3), np.arange(1, 4)),
        ((torch.ones(2), 1), (torch.ones(2), 2)),
        ({"text": "one", "rows": [1, 2]}, {"text": "one", "rows": [1, 3]}),
        (["ab", "c"], ["a", "bc"]),
        (None, 0.0),
    ],
)
def test_items_that_differ_have_digests_that_differ(first: Any, second: Any) -> None:
    assert digest_of_item(first) == digest_of_item(first)
    assert None not in (digest_of_item(first), digest_of_item(second))
    assert digest_of_item(first) != digest_of_item(second)


@pytest.mark.parametrize(
    "item", [object(), [1, object()], {"a": object()}, np.array([object()]), torch.ones(2, dtype=torch.bfloat16)]
)
def test_what_is_not_known_has_none(item: Any) -> None:
    assert digest_of_item(item) is None
