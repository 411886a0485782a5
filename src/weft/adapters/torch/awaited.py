"""Tensors whose values are still to come: the script's first use of one waits until its bucket has landed.

A script runs ahead (runtime/ahead.py) while its gradients are reduced and its parameters are to be updated by them. As
long as that is so, these tensors are of classes of their own, of which torch asks leave before every function of its
Python interface (`__torch_function__`). What only asks for a shape or the like, or whether there is a gradient, goes
on; all else lands the bucket first, which makes its tensors what they were.

Where something uses tensors unasked, scripts are not let run ahead: with compiled or scripted modules, with extensions
in C++ other than torch's own, and while other tensors or arrays share the memory.
"""

import mmap
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weft.adapters.torch.shared_update import SharedUpdate
from weft.adapters.torch.trained import Trained

ASKED = ["grad", "shape", "dtype", "device", "layout", "requires_grad", "ndim", "is_leaf", "is_sparse", "grad_fn"]
CALLED = ["size", "dim", "numel", "stride", "is_floating_point", "__len__"]
HARMLESS = frozenset(
    [getattr(Tensor, name).__get__ for name in ASKED]
    + [getattr(Tensor, name) for name in CALLED]
    + [vars(torch._C.TensorBase)["grad"].__set__]
)
"""What reads no values, and does not lead to code that does. `.grad` is a tensor that waits for itself."""
COMPILER = "torch._dynamo.convert_frame"

TORCH = Path(torch.__file__).parent
LIBRARY = b"libc10.so"
"""What every extension needs that knows torch's tensors."""
_foreign: dict[int, bool | None] = {}
"""By the number of modules that are imported, whether one of them is such an extension."""

_land: dict[int, Callable[[Tensor], None]] = {}
"""By the id of a tensor that is awaited: lands its bucket."""


def _awaits(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    if func not in HARMLESS:
        for tensor in _tensors(args):
            _land_one(tensor)
        for tensor in _tensors(list((kwargs or {}).values())):
            _land_one(tensor)
    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _land_one(tensor: Tensor) -> None:
    land = _land.get(id(tensor))
    if land is not None:
        land(tensor)


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(list(value.values()))


class AwaitedParameter(nn.Parameter):
    """A parameter that is still to be updated."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _awaits(func, args, kwargs)


class AwaitedGradient(Tensor):
    """A gradient that is still to be reduced."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _awaits(func, args, kwargs)


class AwaitedTensors:
    """The parameters and gradients of a replica, bucket by bucket."""

    def __init__(self, model: nn.Module, trained: Sequence[Trained], num_buckets: int, update: SharedUpdate) -> None:
        self._update = update
        update.land_by(self.land_all)
        self._trained: list[list[Trained]] = [[] for _ in range(num_buckets)]
        for one in trained:
            self._trained[one.bucket].append(one)
        self._model = model
        self._is_guarded = all(type(one.parameter) is nn.Parameter for one in trained) and not any(
            isinstance(module, torch.jit.ScriptModule) for module in model.modules()
        )
        self._num_users = self._count_users()
        self.has_been_read = False
        """The script has looked at a gradient, and may have kept a view of it."""
        self._land: Callable[[int], None] = lambda bucket: None
        self._is_awaited = [False] * num_buckets

    def may_be_awaited(self) -> bool:
        """Whether everything that uses these tensors would wait for them."""
        return (
            self._is_guarded
            and not self.has_been_read
            and not _has_compiled()
            and not _has_foreign_code()
            and not self._update.has_hooks()
            and all(one.given_flags[one.flag] for mine in self._trained for one in mine)
            and self._count_users() == self._num_users
        )

    @property
    def is_any_awaited(self) -> bool:
        return any(self._is_awaited)

    def _count_users(self) -> list[int]:
        """For each bucket, how many tensors share the memory of its parameters, and of its gradients."""
        counts = []
        for mine in self._trained:
            ends = mine[0].parameter, mine[0].seen
            counts += [torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) for tensor in ends]
            counts += [sys.getrefcount(one.seen) for one in mine]  # numpy's views of a tensor keep the tensor itself
        return counts

    def await_gradients(self, land: Callable[[int], None]) -> None:
        """From now on, the first use of a bucket's gradients calls `land` with its number, which lands it."""
        self._land = land
        for bucket, mine in enumerate(self._trained):
            self._is_awaited[bucket] = True
            for one in mine:
                one.parameter.grad = one.seen
                _land[id(one.seen)] = self._read
                one.seen.__class__ = AwaitedGradient

    def _read(self, gradient: Tensor) -> None:
        self.has_been_read = True
        self.land_all()

    def begin_update(self) -> None:
        self._update.begin_step(range(len(self._trained)))

    def await_params(self) -> None:
        """The script's step has been made, as far as it sees: the first use of a bucket's parameters lands it, too."""
        for bucket, mine in enumerate(self._trained):
            if not self._is_awaited[bucket]:
                continue
            land = partial(self._use, bucket)
            for one in mine:
                _land[id(one.parameter)] = land
                one.parameter.__class__ = AwaitedParameter

    def _use(self, bucket: int, parameter: Tensor) -> None:
        self._land(bucket)

    def landed(self, bucket: int) -> None:
        """The bucket's gradients are reduced, and its parameters updated if the step was made."""
        self._is_awaited[bucket] = False
        for one in self._trained[bucket]:
            for tensor, kind in ((one.seen, Tensor), (one.parameter, nn.Parameter)):
                if _land.pop(id(tensor), None) is not None:
                    tensor.__class__ = kind

    def land_all(self) -> None:
        """Land all buckets that are awaited."""
        for bucket, is_awaited in enumerate(self._is_awaited):
            if is_awaited:
                self._land(bucket)


def _has_compiled() -> bool:
    """Whether torch.compile has compiled anything in this process: what it makes reads parameters unasked."""
    compiler = sys.modules.get(COMPILER)
    return compiler is not None and bool(getattr(compiler, "FRAME_COUNTER", 1))


def _has_foreign_code() -> bool:
    """Whether an extension is imported that is built on torch's C++ interface, where tensors are used unasked."""
    known = _foreign.setdefault(len(sys.modules), None)
    if known is None:
        files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
        known = _foreign[len(sys.modules)] = any(_is_built_on_torch(file) for file in files if file.endswith(".so"))
    return known


@cache
def _is_built_on_torch(file: str) -> bool:
    if Path(file).is_relative_to(TORCH):
        return False
    with open(file, "rb") as binary, mmap.mmap(binary.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(LIBRARY) >= 0
