"""The replica of scripts that join with arrays."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import weft
from weft.adapters.array_replica import ArrayReplica
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import ReplicaMemory

MIXED: dict[str, Any] = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([7, 8], np.float32), "c": np.array(9.0)}


def replica() -> ArrayReplica:
    return ArrayReplica(MIXED, weft.SGD(lr=0.5), None)


def test_each_type_of_number_is_one_bucket() -> None:
    flat = replica()
    assert flat.buckets == (Bucket(2, 4, tensors=((0, (2,)),)), Bucket(7, 8, tensors=((0, (2, 3)), (6, ()))))
    assert flat.array(PARAMS, 0).tolist() == [7, 8]
    assert flat.array(PARAMS, 1).tolist() == [0, 1, 2, 3, 4, 5, 9]
    assert flat.layout() == ["a (2, 3) float64", "b (2,) float32", "c () float64"]


def test_the_memory_is_the_replicas_own() -> None:
    flat = replica()
    flat.array(PARAMS, 1)[:] = -1
    assert MIXED["a"][0, 1] == 1.0
    assert flat.views()["a"].tolist() == [[-1.0] * 3] * 2


def test_gradients_are_copied_to_their_places() -> None:
    flat = replica()
    flat.take({"a": np.full((2, 3), 2.0), "b": np.array([3, 4], np.float32), "c": np.array(5.0)})
    assert flat.array(GRADIENT, 0).tolist() == [3, 4]
    assert flat.array(GRADIENT, 1).tolist() == [2] * 6 + [5]


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c", "d"], []])
def test_gradients_of_other_names_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        replica().take({name: np.zeros(1) for name in names})
    assert str(refused.value) == (
        f"step() was given gradients for {names}, but the arrays are ['a', 'b', 'c'].\n"
        "  Give one gradient for each array that joined."
    )


def test_gradients_of_another_shape_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        replica().take({"a": np.zeros((3, 2)), "b": np.zeros(2), "c": np.zeros(())})
    assert str(refused.value) == (
        "the gradient of 'a' has the shape (3, 2), but the array has (2, 3).\n  Give them the same shape."
    )


def stepped(rule: Any, num_steps: int = 2) -> ArrayReplica:
    """A replica that has made steps, whose gradients are all 1, 2 and so on."""
    flat = ArrayReplica(MIXED, rule, None)
    step(flat, *range(1, num_steps + 1))
    return flat


def step(flat: ArrayReplica, *gradients: float) -> None:
    for gradient in gradients:
        flat.apply(
            {b: np.full(k.num_elements, gradient, f"f{k.itemsize}") for b, k in enumerate(flat.buckets)}, 1.0, None
        )


def take_over(newcomer: ArrayReplica, handed: list[Any]) -> None:
    for mine, theirs in zip(newcomer.optimizer_state(), handed, strict=False):
        mine.update(theirs)


def test_a_newcomer_goes_on_with_the_momentum_and_the_numbers_of_its_sponsor() -> None:
    sponsor = stepped(weft.Momentum(lr=0.5, momentum=0.75))
    newcomer = ArrayReplica(MIXED, weft.Momentum(lr=0.1), None)
    take_over(newcomer, deepcopy(sponsor.optimizer_state()))
    assert newcomer.hyper() == sponsor.hyper()
    for bucket in range(2):
        newcomer.array(PARAMS, bucket)[:] = sponsor.array(PARAMS, bucket)
    before = newcomer.array(PARAMS, 1).copy()
    for flat in (sponsor, newcomer):
        step(flat, 3.0, 4.0)
    for bucket in range(2):
        assert np.array_equal(newcomer.array(PARAMS, bucket), sponsor.array(PARAMS, bucket))
    assert not np.array_equal(newcomer.array(PARAMS, 1), before)


def test_a_newcomer_that_is_given_no_replica_takes_the_numbers_only() -> None:
    sponsor = stepped(weft.Momentum(lr=0.5, momentum=0.75))
    handed = sponsor.optimizer_state(with_state=False)
    assert handed == [sponsor.hyper()]
    newcomer, fresh = (ArrayReplica(MIXED, weft.Momentum(lr=lr, momentum=0.75), None) for lr in (0.1, 0.5))
    take_over(newcomer, handed)
    for flat in (newcomer, fresh):
        step(flat, 1.0, 2.0)
    assert np.array_equal(newcomer.array(PARAMS, 1), fresh.array(PARAMS, 1)), "its momentum begins anew"


def test_a_bare_function_has_no_optimizer_to_hand_over() -> None:
    flat = ArrayReplica(MIXED, None, lambda params, gradients: None)
    assert flat.optimizer_state(with_state=False) == []


@pytest.mark.parametrize(("is_under_way", "expected"), [(True, 5.0), (False, 8.0)])
def test_a_newcomer_finds_the_values_of_a_run_under_way_and_all_others_bring_their_own(
    is_under_way: bool, expected: float
) -> None:
    flat = replica()
    shared = [np.full(bucket.num_elements, 5.0, f"f{bucket.itemsize}") for bucket in flat.buckets]
    gradient = [np.zeros_like(array) for array in shared]
    flat.settle(None, lambda buckets: ReplicaMemory(shared, gradient, gradient, is_under_way=is_under_way))
    assert (shared[0][1], flat.views()["b"][1], flat.array(PARAMS, 0)[1]) == (expected, expected, expected)
    shared[0][1] = 6.0
    assert flat.views()["b"][1] == 6.0, "from now on it lives there"


def test_values_of_buckets_have_the_names_of_their_arrays() -> None:
    named = replica().named([np.array([1.0, 2.0]), np.arange(7.0)])
    assert {name: array.tolist() for name, array in named.items()} == {
        "a": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        "b": [1.0, 2.0],
        "c": 6.0,
    }
