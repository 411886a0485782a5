"""Digests of a replica's tensors."""

import numpy as np
import torch
from torch import nn

from weft.adapters.arrays import ArrayReplica
from weft.adapters.torch.device_replica import DeviceReplica
from weft.adapters.torch.replica import TorchReplica
from weft.core.rules import SGD
from weft.store.digest import digest, digests


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
