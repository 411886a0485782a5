"""Digests of a replica's tensors."""

import numpy as np
import pytest
import torch
from torch import nn

from weft.adapters.array_replica import ArrayReplica
from weft.adapters.torch.device_replica import DeviceReplica
from weft.adapters.torch.replica import TorchReplica
from weft.core.rules import SGD
from weft.store.digest import digest, digests, sketch, sketches


def replica(kind: type[TorchReplica] = TorchReplica) -> TorchReplica:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    made = kind(model, torch.optim.SGD(model.parameters(), lr=0.1))
    made.settle()
    return made


def test_equal_bits_have_equal_digests_and_one_that_is_other_shows() -> None:
    a = np.arange(6, dtype="f4")
    assert digest(a) == digest(a.copy()) == digest(np.repeat(a, 2)[::2])
    b = a.copy()
    b[[1, 2]] = b[[2, 1]]
    assert digest(b) != digest(a)


def test_every_tensor_has_its_own_by_name_and_flags_do_not_count() -> None:
    one, other = replica(), replica()
    assert digests(one, {}) == digests(other, {})
    assert set(digests(one, {})) == {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    with torch.no_grad():
        other.model[1].bias[2] += 1  # type: ignore[index]
    other.array("params", 0)[list(other.flags(0))] = 5.0
    first, second = digests(one, {}), digests(other, {})
    assert [name for name in first if first[name] != second[name]] == ["1.bias"]


def test_what_is_not_trained_is_as_it_was_kept() -> None:
    one = replica()
    before = digests(one, {})
    kept = {1: one.array("params", 1).copy()}
    one.model(torch.randn(4, 2))
    assert digests(one, {}) != before
    assert digests(one, kept) == before


def test_a_model_that_is_elsewhere_is_looked_at_there() -> None:
    one = replica(DeviceReplica)
    before = digests(one, {})
    with torch.no_grad():
        one.model[0].weight += 1  # type: ignore[index]
    after = digests(one, {})
    assert [name for name in before if before[name] != after[name]] == ["0.weight"]


def test_arrays_have_the_names_that_they_joined_with() -> None:
    made = ArrayReplica({"a": np.zeros(2), "b": np.zeros(3, "f4")}, SGD(0.1), None)
    assert set(digests(made, {})) == {"a", "b"}


@pytest.mark.parametrize("size", [1, 5, 40, 1000, 70_000, 1_100_000])
@pytest.mark.parametrize("how", ["one", "all", "rounding"])
def test_sketches_of_two_arrays_are_about_as_far_apart_as_the_arrays(size: int, how: str) -> None:
    rng = np.random.default_rng(size)
    array = rng.standard_normal(size)
    change = {"one": np.eye(1, size, size // 2)[0], "all": np.ones(size), "rounding": rng.standard_normal(size)}[how]
    norm, *sums = sketch(array)
    other = sketch(array + 1e-6 * change)[1:]
    assert norm == pytest.approx(np.linalg.norm(array))
    assert 0.3 < np.linalg.norm(np.subtract(sums, other)) / (1e-6 * np.linalg.norm(change)) < 3


def test_every_tensor_has_a_sketch_by_the_name_of_its_digest() -> None:
    one = replica()
    assert set(sketches(one, {})) == set(digests(one, {}))
    assert sketches(one, {})["1.weight"][0] == pytest.approx(3**0.5)


def test_the_sketch_of_what_is_not_finite_is_not_either() -> None:
    assert not np.isfinite(sketch(np.array([1.0, np.inf, -np.inf]))[0])
