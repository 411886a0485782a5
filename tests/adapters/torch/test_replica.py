"""A torch model and optimizer as flat buckets."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from weft.adapters.torch import replica as module
from weft.adapters.torch.replica import TorchReplica
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import ReplicaMemory


def made(dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)).to(dtype)
    made = TorchReplica(model, torch.optim.SGD(model.parameters(), lr=0.5, **options))
    made.settle()
    return made


def values(replica: TorchReplica) -> list[Tensor]:
    return [value.clone() for value in replica.model.state_dict().values()]


def test_parameters_come_last_first_and_float_buffers_are_a_bucket_that_is_not_trained() -> None:
    replica = made()
    assert [bucket.trainable for bucket in replica.buckets] == [True, False]
    last, flat = replica.model[2].bias.detach().numpy(), replica.array(PARAMS, 0)
    assert flat[: last.size].tolist() == last.tolist()
    assert replica.array(PARAMS, 1)[16:21].tolist() == [1.0] * 5, "BatchNorm's variances, aligned to 64 bytes"
    assert replica.layout()[0] == "0.weight (5, 3) torch.float32"


def test_the_model_lives_in_the_buckets() -> None:
    replica = made()
    replica.array(PARAMS, 0)[:] = 3.0
    replica.array(PARAMS, 1)[:] = 4.0
    assert all((parameter == 3).all() for parameter in replica.model.parameters())
    assert (replica.model[1].running_var == 4).all()
    with torch.no_grad():
        replica.model[2].bias.fill_(5.0)
    assert replica.array(PARAMS, 0)[:2].tolist() == [5.0, 5.0]


def test_buckets_are_bounded_and_a_larger_tensor_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKET_BYTES_MAX", 40)
    replica = made()
    sizes = [[tensor.numel() for tensor in flat.tensors] for flat in replica._flats]
    assert sizes == [[2, 0], [10], [5, 5], [5], [15], [5, 5]], "the mark of the step is in the first bucket"


def test_one_step_of_the_optimizer_with_the_slot_gradient() -> None:
    replica = made()
    before = [place.parameter.detach().clone() for place in replica.trained]
    for place in replica.trained:
        place.parameter.grad = torch.ones_like(place.parameter)
        assert place.given.shape == place.seen.shape == place.parameter.shape
    replica.give()
    replica.apply({0: replica.array(GRADIENT, 0).copy()}, 1.0, None)
    for then, place in zip(before, replica.trained, strict=True):
        torch.testing.assert_close(then - place.parameter, torch.full_like(then, 0.5))
        assert place.seen_flags[place.flag] == 1.0


def test_a_parameter_without_a_gradient_has_a_flag_of_0_and_is_skipped() -> None:
    replica = made()
    first, second = replica.trained[:2]
    first.parameter.grad = torch.ones_like(first.parameter)
    before = second.parameter.detach().clone()
    replica.give()
    assert (second.given_flags[second.flag], bool(second.given.any())) == (0.0, False)
    replica.apply({0: replica.array(GRADIENT, 0).copy()}, 1.0, None)
    assert torch.equal(second.parameter, before)
    assert second.parameter.grad is None


def test_a_scale_multiplies_the_learning_rate_and_foreign_hyper_parameters_are_for_one_step_only() -> None:
    replica = made()
    gradient = np.ones_like(replica.array(PARAMS, 0))
    hyper = [{**replica.hyper()[0], "lr": 2.0}]
    before = replica.array(PARAMS, 0)[0]
    replica.apply({0: gradient}, 0.25, hyper)
    assert before - replica.array(PARAMS, 0)[0] == pytest.approx(0.5)
    assert replica.optimizers.groups[0]["lr"] == 0.5


def test_buckets_that_are_not_given_are_not_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUCKET_BYTES_MAX", 40)
    replica = made(weight_decay=0.1, momentum=0.9)
    before = [replica.array(PARAMS, b).copy() for b in range(6)]
    mine = replica.trained[-1].parameter.grad = torch.ones(2)
    replica.apply({1: np.ones_like(before[1])}, 1.0, None)
    changed = [not np.array_equal(replica.array(PARAMS, b), before[b]) for b in range(6)]
    assert changed == [False, True, False, False, False, False]
    assert replica.trained[-1].parameter.grad is mine, "the user's gradients are put back"


def test_a_gradient_stays_none_where_nobody_had_one() -> None:
    replica = made()
    used = replica.model[2].bias
    used.grad = torch.ones(2)
    replica.give()
    replica.expose()
    assert [parameter.grad is None for parameter in replica.model.parameters()] == [True] * 5 + [False]
    assert used.grad.data_ptr() == replica.array(GRADIENT, 0).ctypes.data


def test_what_stands_in_grad_at_the_step_is_what_is_applied_whether_edited_replaced_or_taken_away() -> None:
    replica = made()
    for parameter in replica.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    replica.give()
    replica.expose()
    edited, replaced, removed, *_ = replica.trained
    edited.parameter.grad.mul_(2)
    replaced.parameter.grad = torch.full_like(replaced.parameter, 3.0)
    removed.parameter.grad = None
    replica.keep()
    assert (edited.seen == 2).all()
    assert (replaced.seen == 3).all()
    assert (removed.seen_flags[removed.flag], bool(removed.seen.any())) == (0.0, False)


def test_what_is_given_and_what_is_seen_may_be_different_memory() -> None:
    replica = made()
    replica.settle(allocate=apart)
    for parameter in replica.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    replica.give()
    place = replica.trained[0]
    assert ((place.given == 1).all(), (place.seen == 0).all()) == (True, True)
    place.seen.fill_(5.0)
    place.seen_flags[place.flag] = 1.0
    place.expose()
    assert place.parameter.grad is place.seen
    place.keep()
    assert (place.given == 1).all()


def apart(buckets: Sequence[Bucket]) -> ReplicaMemory:
    params, given, seen = ([np.zeros(b.num_elements, np.float32) for b in buckets] for _ in range(3))
    return ReplicaMemory(params, given[:1], seen[:1])


def test_parameters_are_laid_out_in_the_order_of_the_first_backward_those_it_left_out_last_first() -> None:
    replica = made()
    assert list(replica.order()) == [5, 4, 3, 2, 1, 0]
    replica.filled_first += [4, 0, 4]
    assert list(replica.order()) == [4, 0, 5, 3, 2, 1]
    before = values(replica)
    replica.settle([1, 0, 2, 3, 4, 5])
    first, flat = replica.model[0].bias.detach().numpy(), replica.array(PARAMS, 0)
    assert flat[: first.size].tolist() == first.tolist()
    assert all(torch.equal(a, b) for a, b in zip(values(replica), before, strict=True))


def test_workers_begin_alike_with_frozen_and_whole_numbers_included() -> None:
    first, second = made(), made()
    for replica in (first, second):
        replica.model[0].weight.requires_grad_(False)
    with torch.no_grad():
        for value in first.model.state_dict().values():
            value.add_(1)
    for mine, theirs in zip(second.values(), first.values(), strict=True):
        mine[...] = theirs
    assert all(torch.equal(a, b) for a, b in zip(values(second), values(first), strict=True))
    assert int(second.model[1].num_batches_tracked) == 1


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS, torch.optim.Adam])
def test_an_optimizer_whose_step_cannot_do_without_a_closure_brings_a_bucket_for_its_loss(kind: Any) -> None:
    model = nn.Linear(3, 2)
    replica = TorchReplica(model, kind(model.parameters(), lr=0.1))
    replica.settle()
    needs = kind is torch.optim.LBFGS
    assert replica.needs_closure is needs
    assert [(bucket.itemsize, bucket.trainable) for bucket in replica.buckets] == [(4, True)] + [(8, False)] * needs
    if replica.loss is not None:
        replica.array(PARAMS, 1)[0] = 7.0
        assert float(replica.loss) == 7.0


def test_after_a_closures_step_the_next_update_is_left_out_once() -> None:
    replica = made()
    before = replica.array(PARAMS, 0).copy()
    gradient = np.ones_like(before)
    replica.has_stepped = True
    replica.apply({0: gradient}, 1.0, None)
    assert np.array_equal(replica.array(PARAMS, 0), before)
    replica.apply({0: gradient}, 1.0, None)
    assert not np.array_equal(replica.array(PARAMS, 0), before)


@pytest.mark.parametrize("bucket_bytes_max", [None, 16])
def test_a_twin_has_the_order_and_size_of_buckets_that_its_replica_was_given(bucket_bytes_max: int | None) -> None:
    """A server's twin must lie as worker 0's replica does, whatever its own worker's backward filled first."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    replica = TorchReplica(model, torch.optim.SGD(model.parameters(), lr=0.5))
    replica.filled_first = [0, 1]
    replica.settle([1, 0], bucket_bytes_max=bucket_bytes_max)
    twin = replica.twin()
    assert twin.buckets == replica.buckets
    for bucket in range(len(replica.buckets)):
        assert np.array_equal(twin.array(PARAMS, bucket), replica.array(PARAMS, bucket))


def test_a_twin_is_equal_and_steps_by_itself() -> None:
    first = made(momentum=0.9)
    first.apply({0: np.ones_like(first.array(PARAMS, 0))}, 1.0, None)
    twin = first.twin()
    before = values(first)
    assert all(torch.equal(a, b) for a, b in zip(values(twin), before, strict=True))
    twin.apply({0: np.ones_like(twin.array(PARAMS, 0))}, 1.0, None)
    assert all(torch.equal(a, b) for a, b in zip(values(first), before, strict=True))
    assert not np.array_equal(twin.array(PARAMS, 0), first.array(PARAMS, 0))


def test_a_result_is_saved_without_changing_the_model(tmp_path: Path) -> None:
    replica = made()
    before = values(replica)
    path = tmp_path / "model.safetensors"
    replica.save(str(path), {"": [np.full_like(replica.array(PARAMS, b), 7.0) for b in (0, 1)]})
    saved = load_file(path)
    assert set(saved) == set(replica.model.state_dict())
    assert (saved["0.weight"] == 7).all()
    assert saved["1.num_batches_tracked"].item() == 0
    assert all(torch.equal(a, b) for a, b in zip(values(replica), before, strict=True))


def test_several_models_are_saved_in_one_file_by_their_prefixes(tmp_path: Path) -> None:
    replica = made()
    before = values(replica)
    models = {f"{n}.": [np.full_like(replica.array(PARAMS, b), n) for b in (0, 1)] for n in (1, 2)}
    replica.save(str(tmp_path / "models"), models)
    saved = load_file(tmp_path / "models")
    assert set(saved) == {f"{n}.{name}" for n in (1, 2) for name in replica.model.state_dict()}
    assert (saved["1.0.weight"] == 1).all()
    assert (saved["2.0.weight"] == 2).all()
    assert all(torch.equal(a, b) for a, b in zip(values(replica), before, strict=True))


def test_a_model_whose_values_are_its_own_is_saved_without_a_write_to_them(tmp_path: Path) -> None:
    """Workers that share one copy of the parameters see them through pages that a write would make private."""
    replica = made()
    mine = [replica.array(PARAMS, b) for b in (0, 1)]
    for array in mine:
        array.flags.writeable = False
    replica.save(str(tmp_path / "model"), {"": mine})
    assert set(load_file(tmp_path / "model")) == set(replica.model.state_dict())


@torch.no_grad()
def test_a_function_runs_as_one_model_or_as_the_mean_of_several() -> None:
    replica = made()
    models = [[np.full_like(replica.array(PARAMS, b), n) for b in (0, 1)] for n in (1.0, 3.0)]
    assert replica.run_as(models[1:], lambda: float(replica.model[2].bias.sum())) == 2 * 3.0
    given = torch.zeros(2, 3)
    replica.model.eval()
    outputs = [replica.run_as([model], lambda: float(replica.model(given).sum())) for model in models]
    assert outputs[0] != outputs[1]
    assert replica.run_as(models, lambda: float(replica.model(given).sum())) == sum(outputs) / 2


def frozen() -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    TorchReplica(model, torch.optim.SGD(nn.Linear(1, 1).parameters()))


def stranger() -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    TorchReplica(model, torch.optim.SGD([*model.parameters(), *other.parameters()]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            frozen,
            "the model has no parameters that require a gradient, so there is nothing to train.\n"
            "  Give weft.join the model whose parameters the optimizer holds.",
        ),
        (
            stranger,
            "the optimizer holds 2 tensors that are not of the model, so workers would not share them.\n"
            "  Make them parameters of the model that joins.",
        ),
        (
            lambda: made(torch.bfloat16),
            "the model has a tensor of torch.bfloat16 on 'cpu', which is not shared yet.\n"
            "  Use float16, float32 or float64, all on the CPU or all on one GPU (with --transport torch).",
        ),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(make: Callable[[], None], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


def test_an_optimizer_without_a_learning_rate_cannot_be_scaled() -> None:
    replica = made()
    del replica.optimizers.groups[0]["lr"]
    with pytest.raises(ConfigError) as refused:
        replica.apply({0: np.ones_like(replica.array(PARAMS, 0))}, 0.5, None)
    assert str(refused.value) == (
        "this strategy scales the learning rate, which SGD has not.\n"
        "  Use an optimizer with an lr, or allreduce, which does not scale."
    )


def test_flags_lie_behind_each_parameter_of_a_bucket() -> None:
    replica = made()
    *flags, mark = replica.flags(0)
    assert len(flags) == 6
    assert mark == replica.mark.element
    replica.model(torch.ones(4, 3)).sum().backward()
    replica.give()
    assert replica.array("given", 0)[flags].tolist() == [1.0] * 6
    replica.array(PARAMS, 0)[flags] = 9.0
    assert all((parameter != 9).all() for parameter in replica.model.parameters())


def test_tensors_are_named_as_if_the_buckets_had_other_values() -> None:
    replica = made()
    before = values(replica)
    others = [np.arange(bucket.num_elements, dtype="f4") for bucket in replica.buckets]
    named = replica.named(others)
    shared = {name for name, _ in module.named_tensors(replica.model)} - {"1.num_batches_tracked"}
    assert named.keys() == shared
    assert named["2.bias"].tolist() == [0.0, 1.0]
    assert named["1.running_var"].tolist() == [16.0, 17.0, 18.0, 19.0, 20.0]
    assert {name: tensor.shape for name, tensor in named.items()} == {
        name: tensor.shape for name, tensor in module.named_tensors(replica.model) if name in shared
    }
    assert all(torch.equal(one, other) for one, other in zip(before, values(replica), strict=True))
