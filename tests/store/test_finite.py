"""Whether numbers are finite, and which tensor has one that is not."""

import numpy as np
import pytest
import torch

from weft.adapters.array_replica import ArrayReplica
from weft.core.names import GRADIENT, Bucket
from weft.core.rules import SGD
from weft.store.finite import PIECE, bad_tensor, is_finite, tensor_at

LARGEST = {"f2": 6e4, "f4": 3e38, "f8": 1e308}


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, PIECE, 2 * PIECE + 6])
def test_one_bad_number_is_found_wherever_it_is(kind: str, bad: float, place: int) -> None:
    array = np.zeros(2 * PIECE + 7, kind)
    assert is_finite(array)
    array[place] = bad
    assert not is_finite(array)


@pytest.mark.parametrize("kind", LARGEST)
def test_a_sum_that_overflows_is_no_bad_number(kind: str) -> None:
    array = np.full(1000, LARGEST[kind], kind)
    assert is_finite(array)
    array[-1] = np.nan
    assert not is_finite(array)


def test_infinities_of_both_signs_do_not_hide_each_other() -> None:
    assert not is_finite(np.array([np.inf, -np.inf, 1.0]))


def test_a_tensor_that_is_not_numpys_is_looked_at_where_it_is() -> None:
    assert is_finite(torch.ones(3))
    assert not is_finite(torch.tensor([1.0, torch.inf]))


def test_nothing_is_finite() -> None:
    assert is_finite(np.zeros(0))
    assert is_finite(np.zeros(0, "f2"))


def test_the_tensor_is_named() -> None:
    replica = ArrayReplica({"a": np.zeros(2), "b": np.zeros((2, 2)), "c": np.zeros(2, "f4")}, SGD(0.1), None)
    gradients = {"a": np.zeros(2), "b": np.array([[0.0, 0.0], [np.inf, 0.0]]), "c": np.zeros(2)}
    replica.take(gradients)
    assert bad_tensor(replica, GRADIENT, [0, 1]) == "b"
    replica.take({**gradients, "b": np.zeros((2, 2))})
    assert bad_tensor(replica, GRADIENT, [0, 1]) is None


def test_a_flag_belongs_to_the_tensor_before_it_and_a_bucket_may_be_one_vector() -> None:
    bucket = Bucket(7, tensors=((0, (2,)), (3, (3,))), flagged=True)
    assert [tensor_at(bucket, ["a", "b"], place) for place in range(7)] == ["a"] * 3 + ["b"] * 4
    assert tensor_at(Bucket(4), ["all"], 3) == "all"
