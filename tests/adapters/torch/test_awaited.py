"""Tensors that are awaited: whatever uses one lands it first, and where something might not, nothing is awaited."""

import copy
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector
from torch.optim import SGD
from torch.optim.swa_utils import AveragedModel

from weft.adapters.torch.awaited import AwaitedTensors, _has_foreign_code
from weft.adapters.torch.replica import TorchReplica
from weft.core.names import Bucket
from weft.core.seat import ReplicaMemory

PLACE = torch.ones(2, 5)


def allocate(buckets: Sequence[Bucket]) -> ReplicaMemory:
    """Memory of a worker that updates all of it."""
    params = [np.zeros(bucket.num_elements, np.float32) for bucket in buckets]
    given, seen = ([np.zeros_like(array) for array in params] for _ in range(2))
    rows: dict[tuple[int, int], Any] = {}

    def state(k: int, bucket: int) -> Any:
        return rows.setdefault((k, bucket), np.zeros_like(params[bucket]))

    return ReplicaMemory(params, given, seen, [(0, array.size) for array in params], state, params)


class Plain:
    """A model of two layers in a bucket each, of which one step's gradients are given."""

    def __init__(self, model: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        self.model = model or nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
        self.optimizer = SGD(self.model.parameters(), 0.1)
        self.replica = TorchReplica(self.model, self.optimizer)
        self.replica.settle(allocate=allocate, bucket_bytes_max=100)
        assert self.replica.awaited is not None
        self.awaited: AwaitedTensors = self.replica.awaited
        self.landed: list[int] = []
        self.model(PLACE).sum().backward()
        self.replica.give()
        for trained in self.replica.trained:
            trained.given_flags[trained.flag] = trained.seen_flags[trained.flag] = 1

    def run_ahead(self) -> None:
        self.awaited.await_gradients(self.land)
        self.awaited.begin_update()
        self.awaited.await_params()

    def land(self, bucket: int) -> None:
        """What comes of other workers, and of the step."""
        self.awaited.landed(bucket)
        self.landed.append(bucket)
        for trained in self.replica.trained:
            if trained.bucket == bucket:
                trained.parameter.data.fill_(7.0)
                trained.seen.fill_(3.0)

    @property
    def weight(self) -> nn.Parameter:
        return next(self.model.parameters())

    @property
    def bucket(self) -> int:
        return self.replica.trained[0].bucket


def saved(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return next(iter(torch.load(file).values()))


def in_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def in_place(weight: nn.Parameter) -> Tensor:
    with torch.no_grad():
        return weight.clamp_(-100.0, 100.0)


USES: dict[str, Callable[[Plain], Any]] = {
    "sum": lambda plain: plain.weight.sum() / 35,
    "operator": lambda plain: plain.weight + 0.0,
    "reflected operator": lambda plain: 0.0 + plain.weight,
    "index": lambda plain: plain.weight[0],
    "numpy": lambda plain: plain.weight.detach().numpy(),
    "asarray": lambda plain: np.asarray(plain.weight.data),
    "data": lambda plain: plain.weight.data,
    "tolist": lambda plain: torch.tensor(plain.weight.tolist()),
    "item": lambda plain: plain.weight.mean().item(),
    "iterate": lambda plain: next(iter(plain.weight)),
    "list of tensors": lambda plain: torch._foreach_add([plain.weight], 0.0)[0],
    "cat": lambda plain: torch.cat([torch.full((1, 5), 7.0), plain.weight]),
    "keyword": lambda plain: torch.mul(input=plain.weight, other=1.0),
    "out": lambda plain: torch.mul(plain.weight.detach(), 1.0, out=torch.zeros(7, 5)),
    "vector": lambda plain: parameters_to_vector(plain.model[0].parameters()),  # type: ignore[index]
    "deepcopy": lambda plain: next(copy.deepcopy(plain.model).parameters()),
    "pickle": lambda plain: next(pickle.loads(pickle.dumps(plain.model)).parameters()),
    "state_dict": lambda plain: plain.model.state_dict()["0.weight"].clone(),
    "torch.save": lambda plain: saved(plain.model),
    "averaged": lambda plain: next(AveragedModel(plain.model).parameters()),
    "storage": lambda plain: torch.tensor(plain.weight.untyped_storage().tolist()[:0] or [7.0]),
    "pointer": lambda plain: plain.weight.data_ptr() and plain.weight,
    "thread": lambda plain: in_thread(lambda: plain.weight.clone()),
    "in place": lambda plain: in_place(plain.weight),
    "print": lambda plain: torch.tensor(float("7." in repr(plain.weight)) * 7),
    "dlpack": lambda plain: torch.from_dlpack(plain.weight.detach()),
    "functional": lambda plain: torch.func.functional_call(plain.model[0], {}, (PLACE,)) / 6,  # type: ignore[index]
    "forward": lambda plain: plain.model[0](PLACE) / 6,  # type: ignore[index]
}


@pytest.mark.parametrize("use", USES)
def test_the_first_use_of_a_parameter_lands_its_bucket_and_sees_its_new_value(use: str) -> None:
    plain = Plain()
    assert plain.awaited.may_be_awaited()
    plain.run_ahead()
    found = USES[use](plain)
    assert plain.bucket in plain.landed
    assert np.allclose(found.detach() if isinstance(found, Tensor) else found, 7.0)
    assert type(plain.weight) is nn.Parameter


@pytest.mark.parametrize(
    "use",
    [
        lambda plain: clip_grad_norm_(plain.model.parameters(), 1.0),
        lambda plain: plain.weight.grad.norm(),
        lambda plain: plain.weight.grad.zero_(),
        lambda plain: [p.grad.clone() for p in plain.model.parameters()],
        lambda plain: torch._foreach_norm([p.grad for p in plain.model.parameters()]),
    ],
    ids=["clip", "norm", "zero", "clone", "foreach"],
)
def test_the_first_use_of_a_gradient_lands_all_and_the_script_is_not_let_ahead_again(use: Any) -> None:
    plain = Plain()
    plain.awaited.await_gradients(plain.land)
    use(plain)
    assert sorted(plain.landed) == sorted({trained.bucket for trained in plain.replica.trained})
    assert not plain.awaited.is_any_awaited
    assert not plain.awaited.may_be_awaited()
    assert all(type(trained.seen) is Tensor for trained in plain.replica.trained)


@pytest.mark.parametrize(
    "ask",
    [
        lambda plain: plain.weight.shape == (7, 5),
        lambda plain: sum(p.numel() for p in plain.model.parameters() if p.requires_grad) == 66,
        lambda plain: all(p.grad is not None for p in plain.model.parameters()),
        lambda plain: isinstance(plain.weight, nn.Parameter) and isinstance(plain.weight.grad, Tensor),
        lambda plain: plain.weight.dtype is torch.float32 and plain.weight.device.type == "cpu",
        lambda plain: plain.optimizer.zero_grad() is None and plain.weight.grad is None,
        lambda plain: len(list(plain.model.named_parameters())) == 4,
    ],
    ids=["shape", "count", "has gradients", "kinds", "type", "zero_grad", "names"],
)
def test_what_reads_no_values_waits_for_nothing(ask: Any) -> None:
    plain = Plain()
    plain.run_ahead()
    assert ask(plain)
    assert plain.landed == []
    plain.awaited.land_all()


def test_other_buckets_are_still_awaited_when_one_has_landed() -> None:
    plain = Plain()
    plain.run_ahead()
    last = list(plain.model.parameters())[-1]
    last.sum()
    assert plain.bucket not in plain.landed
    assert plain.awaited.is_any_awaited
    assert type(plain.weight) is not nn.Parameter
    plain.awaited.land_all()
    assert type(plain.weight) is nn.Parameter
    assert not plain.awaited.is_any_awaited


class Scaled(nn.Parameter):
    """A parameter of a class of its own."""


class Custom(nn.Module):
    """A model with such a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Scaled(torch.ones(5))
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * self.scale)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_is_awaited_that_may_be_used_unasked() -> None:
    assert Plain().awaited.may_be_awaited()
    assert not Plain(Custom()).awaited.may_be_awaited()
    assert not Plain(nn.Sequential(torch.jit.script(nn.Linear(5, 3)))).awaited.may_be_awaited()


@pytest.mark.parametrize(
    "keep",
    [
        lambda plain: plain.weight.detach().numpy(),
        lambda plain: plain.weight.data,
        lambda plain: plain.weight.view(-1),
        lambda plain: plain.weight.grad,
        lambda plain: plain.weight.grad.view(-1),
        lambda plain: plain.weight.grad.numpy(),
        lambda plain: [p.grad for p in plain.model.parameters()],
        lambda plain: torch.from_dlpack(plain.weight.detach()),
        lambda plain: memoryview(plain.weight.detach().numpy()),
    ],
    ids=["numpy", "data", "view", "grad", "view of grad", "numpy of grad", "list of grads", "dlpack", "buffer"],
)
def test_nothing_is_awaited_while_something_else_has_its_memory(keep: Any) -> None:
    plain = Plain()
    of_backward = [trained.parameter.grad for trained in plain.replica.trained]
    plain.replica.expose()
    kept = keep(plain)
    for trained, gradient in zip(plain.replica.trained, of_backward, strict=True):
        trained.parameter.grad = gradient
    assert not plain.awaited.may_be_awaited()
    del kept
    assert plain.awaited.may_be_awaited()


def test_nothing_is_awaited_with_hooks_at_the_optimizers_step() -> None:
    plain = Plain()
    hook = plain.optimizer.register_step_post_hook(lambda *_: None)
    assert not plain.awaited.may_be_awaited()
    hook.remove()
    assert plain.awaited.may_be_awaited()


def test_nothing_is_awaited_of_which_a_gradient_was_not_given() -> None:
    plain = Plain()
    trained = plain.replica.trained[2]
    trained.given_flags[trained.flag] = 0
    assert not plain.awaited.may_be_awaited()


COMPILED = """
import torch
from weft.adapters.torch.awaited import _has_compiled
assert not _has_compiled()
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)))
assert _has_compiled()
"""


def test_nothing_is_awaited_once_something_was_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("tensor([2.])\n", 0), done.stderr


def test_extensions_on_torchs_interface_for_c_plus_plus_are_known_by_what_they_link(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _has_foreign_code()
    for name, content in (("innocent", b"\x7fELF libm.so.6"), ("fused", b"\x7fELF libc10.so libtorch.so")):
        file = tmp_path / f"{name}.so"
        file.write_bytes(content)
        module = type(sys)(name)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, f"test_{name}", module)
        assert _has_foreign_code() is (name == "fused")
