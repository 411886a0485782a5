"""A torch model and optimizer as flat buckets: parameters become views of the buckets' memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import Replica

BUCKET_BYTES_MAX = 4 << 20
ALIGN_BYTES = 64


class Flat:
    """Tensors of one type laid one after another in one piece of memory, each aligned to a cache line.

    Behind each tensor is room for one number more. In a gradient it is the flag: not 0 where the tensor
    has a gradient. It travels, is summed and is averaged with the bucket, so everybody who applies the
    bucket knows whether anybody had a gradient, and skips the tensor alike if nobody had.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.starts: list[int] = []
        end = 0
        for tensor in tensors:
            align = ALIGN_BYTES // tensor.element_size()
            start = -(-end // align) * align
            self.starts.append(start)
            end = start + tensor.numel() + 1
        self.num_elements = end
        self.memory = torch.zeros(end, dtype=tensors[0].dtype)

    def views(self, memory: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Each tensor with its place in `memory` and its flag."""
        for tensor, start in zip(self.tensors, self.starts, strict=True):
            end = start + tensor.numel()
            yield tensor, memory[start:end].view(tensor.shape), memory[end]

    def adopt(self) -> None:
        """Let the tensors live in this memory."""
        with torch.no_grad():
            for tensor, view, _ in self.views(self.memory):
                view.copy_(tensor)
                tensor.data = view


class TorchReplica:
    """Trained parameters in buckets, last first (the order of backward); float buffers in a last bucket.

    `apply` runs the user's own optimizer: buckets that are not given have no gradient meanwhile, which
    every torch optimizer skips.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.brought = (model, optimizer)
        self._step: Callable[[], Any] = optimizer.step
        trained = [p for p in model.parameters() if p.requires_grad]
        self._frozen = [p for p in model.parameters() if not p.requires_grad]
        buffers = [b for b in model.buffers() if b.is_floating_point()]
        _check(optimizer, model, trained, buffers)
        groups = [*_bucketed(list(reversed(trained))), *_by_type(buffers)]
        self._flats = [Flat(group) for group in groups]
        for flat in self._flats:
            flat.adopt()
        num_trained = len(groups) - len(_by_type(buffers))
        self._gradients = [torch.zeros_like(flat.memory) for flat in self._flats[:num_trained]]
        self.buckets = tuple(
            Bucket(flat.num_elements, flat.memory.element_size(), i < num_trained) for i, flat in enumerate(self._flats)
        )
        self._arrays = {
            PARAMS: [flat.memory.numpy() for flat in self._flats],
            GRADIENT: [memory.numpy() for memory in self._gradients],
        }
        self.gradient_views = [
            each for flat, memory in zip(self._flats, self._gradients, strict=False) for each in flat.views(memory)
        ]
        """Every trained parameter, its place in the slot `gradient`, and its flag."""

    def layout(self) -> Sequence[str]:
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        return [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in named]

    def array(self, slot: str, bucket: int) -> Any:
        return self._arrays[slot][bucket]

    def collect(self) -> None:
        """Copy what stands in the parameters' `.grad` into the slot `gradient`."""
        with torch.no_grad():
            for parameter, view, flag in self.gradient_views:
                grad = parameter.grad
                flag.fill_(grad is not None)
                if grad is None:
                    view.zero_()
                elif grad.layout is not torch.strided:
                    raise ConfigError(
                        f"a parameter of shape {tuple(parameter.shape)} has a sparse gradient, which is not shared.\n"
                        "  Use sparse=False in its layer."
                    )
                elif grad.data_ptr() != view.data_ptr():
                    view.copy_(grad)

    def expose(self) -> None:
        """Let the parameters' `.grad` be the slot `gradient`, where anybody had a gradient."""
        for parameter, view, flag in self.gradient_views:
            parameter.grad = view if flag else None

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        before = [(parameter, parameter.grad) for parameter, _, _ in self.gradient_views]
        own = all(gradients.get(b) is self._arrays[GRADIENT][b] for b in range(len(self._gradients)))
        if not own:
            for parameter, _ in before:
                parameter.grad = None
            for bucket, array in gradients.items():
                # a copy: other receivers share the array, and an optimizer may write to its gradients
                for parameter, view, flag in self._flats[bucket].views(torch.from_numpy(array.copy())):
                    parameter.grad = view if flag else None
        try:
            self._step_with(hyper, scale)
        finally:
            if not own:
                for parameter, grad in before:
                    parameter.grad = grad

    def _step_with(self, hyper: Any | None, scale: float) -> None:
        """The optimizer's own step, with other hyper-parameters meanwhile; what it keeps in its groups stays."""
        if hyper is None and scale == 1.0:
            self._step()
            return
        groups = self.optimizer.param_groups
        changed = [dict(values) for values in hyper] if hyper is not None else [{} for _ in groups]
        for group, values in zip(groups, changed, strict=True):
            if scale != 1.0:
                if "lr" not in group:
                    raise ConfigError(
                        f"this strategy scales the learning rate, which {type(self.optimizer).__name__} has not.\n"
                        "  Use an optimizer with an lr, or allreduce, which does not scale."
                    )
                values["lr"] = values.get("lr", group["lr"]) * scale
        before = [{n: group[n] for n in values if n in group} for group, values in zip(groups, changed, strict=True)]
        for group, values in zip(groups, changed, strict=True):
            group.update(values)
        try:
            self._step()
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)

    def hyper(self) -> Any:
        return [
            {
                name: value.clone() if isinstance(value, Tensor) else value
                for name, value in group.items()
                if name != "params"
            }
            for group in self.optimizer.param_groups
        ]

    def check_unfrozen(self) -> None:
        """Refuse parameters that were unfrozen after joining: they have no bucket, so they would not be shared."""
        for parameter in self._frozen:
            if parameter.grad is not None:
                raise ConfigError(
                    f"a parameter of shape {tuple(parameter.shape)} has a gradient, but was frozen at weft.join.\n"
                    "  Set requires_grad before joining."
                )

    def adopt(self, other: Replica) -> None:
        assert isinstance(other, TorchReplica)
        with torch.no_grad():
            for mine, theirs in zip(_values(self.model), _values(other.model), strict=True):
                mine.copy_(theirs)

    def twin(self) -> "TorchReplica":
        memo: dict[int, Any] = {}
        model = deepcopy(self.model, memo)
        optimizer = deepcopy(self.optimizer, memo)
        return TorchReplica(model, optimizer)

    def save(self, path: str, arrays: Sequence[Any]) -> None:
        from safetensors.torch import save_file

        mine = [array.copy() for array in self._arrays[PARAMS]]
        for array, value in zip(self._arrays[PARAMS], arrays, strict=True):
            array[:] = value
        save_file({name: value.clone() for name, value in self.model.state_dict().items()}, path)
        for array, value in zip(self._arrays[PARAMS], mine, strict=True):
            array[:] = value


def _values(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _by_type(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    types = list(dict.fromkeys(tensor.dtype for tensor in tensors))
    return [[tensor for tensor in tensors if tensor.dtype == kind] for kind in types]


def _bucketed(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Tensors in order, in groups of one type and at most BUCKET_BYTES_MAX (or a single tensor)."""
    buckets: list[list[Tensor]] = []
    for group in _by_type(tensors):
        size = BUCKET_BYTES_MAX + 1
        for tensor in group:
            if size + tensor.nbytes > BUCKET_BYTES_MAX:
                buckets.append([])
                size = 0
            buckets[-1].append(tensor)
            size += tensor.nbytes
    return buckets


def _check(optimizer: Optimizer, model: nn.Module, trained: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
    if not trained:
        raise ConfigError(
            "the model has no parameters that require a gradient, so there is nothing to train.\n"
            "  Give weft.join the model whose parameters the optimizer holds."
        )
    known = {id(parameter) for parameter in model.parameters()}
    strangers = sum(id(p) not in known for group in optimizer.param_groups for p in group["params"])
    if strangers:
        raise ConfigError(
            f"the optimizer holds {strangers} tensors that are not of the model, so workers would not share them.\n"
            "  Make them parameters of the model that joins."
        )
    for tensor in [*trained, *buffers]:
        if tensor.device.type != "cpu" or tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            raise ConfigError(
                f"the model has a tensor of {tensor.dtype} on '{tensor.device}', which is not simulated.\n"
                "  Use float16, float32 or float64 on the CPU."
            )
