"""What a checkpoint has of a torch script: models, optimizers, and all random numbers."""

import gc
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from weft.adapters.torch.order import generators_of
from weft.adapters.torch.replica import layout, named_tensors
from weft.adapters.torch.saving import check_finite
from weft.checkpoints.tensor_file import TensorBytes
from weft.core.errors import CheckpointError

TYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32",
    torch.int64: "I64", torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
    torch.complex64: "C64",
}  # fmt: skip
KINDS = {name: kind for kind, name in TYPES.items()}
Named = Callable[[Sequence[Any]], dict[str, Tensor]]


class TorchState:
    """The models and optimizers that joined. `model` is asked for when it is needed: further ones may join."""

    def __init__(
        self, model: Callable[[], nn.Module], optimizers: Sequence[Optimizer], named: Named | None = None
    ) -> None:
        """`named` gives the tensors of the model, by name, that have these values of the buckets."""
        self._model = model
        self._optimizers = optimizers
        self._named = named

    def as_tensor(self, value: Any) -> TensorBytes | None:
        if not isinstance(value, Tensor) or value.layout is not torch.strided or value.dtype not in TYPES:
            return None
        flat = value.detach().cpu().contiguous().reshape(-1)
        return TensorBytes(TYPES[value.dtype], tuple(value.shape), flat.view(torch.uint8).numpy().data)

    def to_tensor(self, tensor: TensorBytes) -> Tensor:
        kind = KINDS[tensor.dtype]
        if not len(tensor.data):
            return torch.zeros(tensor.shape, dtype=kind)
        return torch.frombuffer(bytearray(tensor.data), dtype=kind).reshape(tensor.shape)

    def layout(self) -> list[str]:
        return layout(self._model())

    def check_finite(self) -> None:
        model = self._model()
        check_finite("the checkpoint", dict(named_tensors(model)), model, [""])

    def model(self, values: Any = None) -> dict[str, Any]:
        model = dict(named_tensors(self._model()))
        return model if values is None or self._named is None else model | self._named(values)

    def optimizers(self, replica: Any = None) -> list[Any]:
        every = self._optimizers if replica is None else replica.optimizers.all
        return [{"kind": type(each).__name__, "state": each.state_dict()} for each in every]

    def unnamed(self, kept: Iterable[Any]) -> str:
        return unnamed(self._optimizers, list(kept))

    def load(self, model: Mapping[str, Any], optimizers: Sequence[Any]) -> None:
        """Copy a state into the model's own tensors, and into the optimizers' groups."""
        kinds = [each["kind"] for each in optimizers]
        mine = [type(each).__name__ for each in self._optimizers]
        if kinds != mine:
            raise CheckpointError(
                f"the checkpoint has the optimizers {', '.join(kinds)}, but the script's are {', '.join(mine)}.\n"
                "  Use the optimizers that it was made with, or another folder."
            )
        with torch.no_grad():
            for name, tensor in named_tensors(self._model()):
                tensor.copy_(model[name])
        for optimizer, stored in zip(self._optimizers, optimizers, strict=True):
            _load(optimizer, stored["state"])

    def random(self, data: Any) -> dict[str, Any]:
        version, words, gauss = random.getstate()
        return {
            "python": [version, np.array(words, "u4"), gauss],
            "numpy": list(np.random.get_state()),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "generators": self.generators(data),
        }

    def set_random(self, state: Mapping[str, Any], data: Any) -> None:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words.tolist()), gauss))
        np.random.set_state(tuple(state["numpy"]))
        torch.set_rng_state(state["torch"])
        if state["cuda"]:
            torch.cuda.set_rng_state_all(state["cuda"])
        for generator, stored in zip(generators_of(data), state["generators"], strict=True):
            generator.set_state(stored)

    def generators(self, data: Any) -> list[Any]:
        return [generator.get_state() for generator in generators_of(data)]

    def set_generators(self, states: list[Any], data: Any, already: set[int]) -> None:
        for generator, stored in zip(generators_of(data), states, strict=False):
            if id(generator) not in already:
                already.add(id(generator))
                generator.set_state(stored)


def unnamed(optimizers: Sequence[Optimizer], kept: Sequence[Any]) -> str:
    """Why the state of a script's schedulers or gradient scaler would be lost, if it does not keep them; else empty.

    They are searched among all objects: not all of them leave a trace in the optimizer.
    """
    scheduled = [getattr(each, "optimizer", None) for each in kept]
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, LRScheduler) and any(each.optimizer is mine for mine in optimizers):
            if not any(each.optimizer is known for known in scheduled):
                return (
                    "the script's learning-rate scheduler would begin anew; name it by worker.keep(scheduler=scheduler)"
                )
        elif issubclass(kind, GradScaler) and each.is_enabled() and not any(each is known for known in kept):
            return "the script's gradient scaler would begin anew; name it by worker.keep(scaler=scaler)"
    return ""


def optimizer_state(optimizer: Optimizer, *, with_state: bool) -> dict[str, Any]:
    """An optimizer's numbers for each group and, `with_state`, its state."""
    if with_state:
        return optimizer.state_dict()
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    return {"param_groups": groups}


def take_optimizer_state(optimizer: Optimizer, handed: Mapping[str, Any]) -> None:
    """Go on with what `optimizer_state` has told of another worker's optimizer."""
    if "state" in handed:
        _load(optimizer, dict(handed))
        return
    for group, numbers in zip(optimizer.param_groups, handed["param_groups"], strict=True):
        group.update(numbers)


def _load(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load an optimizer's state; its groups stay the same objects, since others may hold them."""
    groups = optimizer.param_groups
    if [len(group["params"]) for group in groups] != [len(group["params"]) for group in state["param_groups"]]:
        raise CheckpointError(
            f"the groups of parameters of {type(optimizer).__name__} are not those of the checkpoint.\n"
            "  Use the optimizer that it was made with, or another folder."
        )
    optimizer.load_state_dict(state)
    for mine, loaded in zip(groups, optimizer.param_groups, strict=True):
        mine.clear()
        mine.update(loaded)
    optimizer.param_groups = groups
