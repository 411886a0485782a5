"""A torch model and optimizer as flat buckets: parameters become views of the buckets' memory."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.adapters.torch.factors import FactorCapture
from weft.adapters.torch.flat import BUCKET_BYTES_MAX, Flat, bucketed, by_type
from weft.adapters.torch.momentum import check_no_momentum, taken_momentum
from weft.adapters.torch.sliced import SlicedUpdate, works_element_by_element
from weft.adapters.torch.together import predicting_together
from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import Number, Places


class Trained:
    """A trained parameter, where its gradient goes (`given`) and where the one to be applied is (`seen`)."""

    __slots__ = ("bucket", "flag", "given", "given_flags", "index", "parameter", "seen", "seen_flags")

    def __init__(self, index: int, parameter: Tensor) -> None:
        self.index = index
        self.parameter = parameter
        self.bucket = 0
        self.flag = 0
        self.given: Tensor
        self.seen: Tensor
        self.given_flags: Any
        self.seen_flags: Any

    def give(self) -> None:
        """Copy `.grad` to where the worker's contribution is."""
        self._put(self.given, self.given_flags)

    def keep(self) -> None:
        """See to it that what stands in `.grad` now is what will be applied."""
        if self.parameter.grad is not self.seen:
            self._put(self.seen, self.seen_flags)

    def _put(self, place: Tensor, flags: Any) -> None:
        grad = self.parameter.grad
        flags[self.flag] = grad is not None
        if grad is None:
            place.zero_()
        elif grad.layout is not torch.strided:
            raise ConfigError(
                f"a parameter of shape {tuple(self.parameter.shape)} has a sparse gradient, which is not shared.\n"
                "  Use sparse=False in its layer."
            )
        elif grad.data_ptr() != place.data_ptr():
            place.copy_(grad)

    def expose(self) -> None:
        """Let `.grad` be the gradient to be applied, if anybody had one."""
        self.parameter.grad = self.seen if self.seen_flags[self.flag] else None


class TorchReplica:
    """Trained parameters in buckets, in the order of backward; float buffers in last buckets.

    `apply` runs the user's own optimizer: buckets that are not given have no gradient meanwhile, which
    every torch optimizer skips. An optimizer with a closure makes its steps itself; the loss that its
    closure found is a last bucket of one number, so that all workers search along the same line.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.brought = (model, optimizer)
        self.step: Callable[..., Any] = optimizer.step
        """The optimizer's own step, before anybody watched it."""
        self.has_stepped = False
        """A closure's step has already moved the parameters."""
        self.device: str | None = None
        trained = [p for p in model.parameters() if p.requires_grad]
        self._frozen = [p for p in model.parameters() if not p.requires_grad]
        self._buffers = [b for b in model.buffers() if b.is_floating_point()]
        _check(optimizer, model, trained)
        self._check_types([*trained, *self._buffers])
        self.trained = [Trained(index, parameter) for index, parameter in enumerate(trained)]
        self.filled_first: list[int] = []
        """Which parameters the first backward filled, in its order."""
        self.needs_closure = requires_closure(optimizer)
        self.loss = torch.zeros(1, dtype=torch.float64) if self.needs_closure else None
        self.buckets: tuple[Bucket, ...] = ()
        self.is_settled = False
        self._flats: list[Flat] = []
        self._arrays: dict[str, Sequence[Any]] = {}
        self._sliced: SlicedUpdate | None = None
        self.tuning: Tuning | None = None
        self._capture: FactorCapture | None = None
        self._has_given_up_momentum = False

    def _is_at_home(self, tensor: Tensor) -> bool:
        """It is where the model's tensors are expected."""
        return tensor.device.type == "cpu"

    def _check_types(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if not self._is_at_home(tensor) or tensor.dtype not in (torch.float16, torch.float32, torch.float64):
                raise ConfigError(
                    f"the model has a tensor of {tensor.dtype} on '{tensor.device}', which is not shared yet.\n"
                    "  Use float16, float32 or float64, all on the CPU or all on one GPU (with --transport torch)."
                )

    @property
    def shares_update(self) -> bool:
        return works_element_by_element(self.optimizer)

    def order(self) -> Sequence[int]:
        filled = list(dict.fromkeys(self.filled_first))
        return filled + [place.index for place in reversed(self.trained) if place.index not in set(filled)]

    def settle(
        self,
        order: Sequence[int] | None = None,
        place: Callable[[Sequence[Bucket]], Places] | None = None,
        bucket_bytes_max: int | None = None,
    ) -> None:
        tensors = [self.trained[index].parameter for index in (self.order() if order is None else order)]
        trained = bucketed(tensors, bucket_bytes_max or BUCKET_BYTES_MAX)
        kept = by_type([*self._buffers, *([] if self.loss is None else [self.loss])])
        self._flats = [Flat(group) for group in (*trained, *kept)]
        self.buckets = tuple(
            Bucket(flat.num_elements, flat.itemsize, i < len(trained), tensors=flat.shapes(), flagged=True)
            for i, flat in enumerate(self._flats)
        )
        places = (place or own_places)(self.buckets)
        self._arrays = {PARAMS: places.params, GRADIENT: places.seen, "given": places.given}
        masters = dict(enumerate(places.master or ()))
        for bucket, (flat, array) in enumerate(zip(self._flats, places.params, strict=True)):
            flat.write(torch.from_numpy(masters.get(bucket, array)))
            self._live_in(flat, torch.from_numpy(array))
        self._settle_gradients(places)
        if places.spans is not None:
            self._sliced = SlicedUpdate(self.optimizer, self._flats[: len(trained)], places)
        self.is_settled = True

    def _live_in(self, flat: Flat, memory: Tensor) -> None:
        flat.move(memory)

    def _settle_gradients(self, places: Places) -> None:
        known = {id(place.parameter): place for place in self.trained}
        for bucket, (flat, given, seen) in enumerate(zip(self._flats, places.given, places.seen, strict=False)):
            views = flat.views(torch.as_tensor(given)), flat.views(torch.as_tensor(seen))
            for tensor, flag, mine, reduced in zip(flat.tensors, flat.flags(), *views, strict=True):
                place = known[id(tensor)]
                place.bucket, place.flag, place.given, place.seen = bucket, flag, mine, reduced
                place.given_flags, place.seen_flags = given, seen

    def layout(self) -> Sequence[str]:
        return layout(self.model)

    def array(self, slot: str, bucket: int) -> Any:
        return self._arrays[slot][bucket]

    def give(self) -> None:
        """Copy what stands in the parameters' `.grad` to where the worker's contribution is."""
        with torch.no_grad():
            for place in self.trained:
                place.give()

    def keep(self) -> None:
        """See to it that what stands in the parameters' `.grad` now is what will be applied."""
        with torch.no_grad():
            for place in self.trained:
                place.keep()

    def expose(self) -> None:
        """Let the parameters' `.grad` be the gradient to be applied, where anybody had one."""
        for place in self.trained:
            place.expose()

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        if self.has_stepped:
            self.has_stepped = False
            return
        if self._has_given_up_momentum:
            check_no_momentum(self.optimizer)
        seen = self._arrays[GRADIENT]
        if all(gradients.get(bucket) is array for bucket, array in enumerate(seen)):
            if self._sliced is not None and scale == 1.0 and hyper is None:
                self._sliced.step()
            else:
                self._step_with(hyper, scale)
            return
        before = [(place.parameter, place.parameter.grad) for place in self.trained]
        for parameter, _ in before:
            parameter.grad = None
        for bucket, array in gradients.items():
            # a copy: other receivers share the array, and an optimizer may write to its gradients
            own = array.copy()
            flat = self._flats[bucket]
            for parameter, view, flag in zip(
                flat.tensors, flat.views(torch.from_numpy(own)), flat.flags(), strict=True
            ):
                parameter.grad = view if own[flag] else None
        try:
            self._step_with(hyper, scale)
        finally:
            for parameter, grad in before:
                parameter.grad = grad

    def _step_with(self, hyper: Any | None, scale: float) -> None:
        """The optimizer's own step, with other hyper-parameters meanwhile; what it keeps in its groups stays."""
        if hyper is None and scale == 1.0:
            self.step()
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
            self.step()
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)

    def hyper(self) -> Any:
        return [
            {name: _plain(value) for name, value in group.items() if name != "params"}
            for group in self.optimizer.param_groups
        ]

    def flags(self, bucket: int) -> Sequence[int]:
        return self._flats[bucket].flags()

    def give_up_momentum(self) -> float:
        self._has_given_up_momentum = True
        return taken_momentum(self.optimizer)

    def capture_factors(self) -> None:
        self._capture = FactorCapture(self.model)

    def factors(self, bucket: int) -> Sequence[tuple[int, Any, Any]]:
        flat = self._flats[bucket]
        assert self._capture is not None
        given = flat.views(torch.from_numpy(self._arrays["given"][bucket]))
        return self._capture.take(flat.tensors, [view.numpy() for view in given])

    def check_unfrozen(self) -> None:
        """Refuse parameters that were unfrozen after joining: they have no bucket, so they would not be shared."""
        for parameter in self._frozen:
            if parameter.grad is not None:
                raise ConfigError(
                    f"a parameter of shape {tuple(parameter.shape)} has a gradient, but was frozen at weft.join.\n"
                    "  Set requires_grad before joining."
                )

    def values(self) -> Sequence[Any]:
        tensors = [*self.model.parameters(), *self.model.buffers()]
        return [
            (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy() for t in (t.detach() for t in tensors)
        ]

    def begin_with(self, values: Sequence[Any]) -> None:
        """They are the model's own memory."""

    def pull(self) -> None:
        """Before the first gradient of a backward is given: let the buckets have what is not trained."""

    def push(self) -> None:
        """When a gradient has been shared: let the model have what is not trained, as it is in the buckets."""

    def tuned(self) -> Sequence[str]:
        return [] if self.tuning is None else self.tuning.lines()

    def share_tuned(self) -> None:
        if self.tuning is not None:
            bucket, values = self.tuning.share()
            self.buckets += (bucket,)
            self._arrays[PARAMS] = [*self._arrays[PARAMS], values]

    def twin(self) -> "TorchReplica":
        memo: dict[int, Any] = {}
        model = deepcopy(self.model, memo)
        optimizer = deepcopy(self.optimizer, memo)
        twin = TorchReplica(model, optimizer)
        twin.filled_first = list(self.order())
        twin.settle()
        return twin

    def run_as(self, models: Sequence[Sequence[Any]], function: Callable[[], Number]) -> float:
        """Of several models, each call of the model is a call for each of them, and gives the mean."""
        if len(models) == 1:
            self._put(models[0])
            return float(function())
        with predicting_together(self.model, [partial(self._put, model) for model in models]):
            return float(function())

    def _put(self, values: Sequence[Any]) -> None:
        """Values that are the replica's own memory are there already."""
        for array, value in zip(self._arrays.get(PARAMS, ()), values, strict=True):
            if value is not array:
                array[:] = value

    def save(self, path: str, models: Mapping[str, Sequence[Any]]) -> None:
        mine = self._arrays.get(PARAMS, ())
        others = [array for b, array in enumerate(mine) if any(values[b] is not array for values in models.values())]
        before = [array.copy() for array in others]
        tensors: dict[str, Tensor] = {}
        for prefix, values in models.items():
            self._put(values)
            tensors.update(cloned(self.model, prefix))
        for array, value in zip(others, before, strict=True):
            array[:] = value
        save_tensors(path, tensors)


def layout(model: nn.Module) -> list[str]:
    """A line for each tensor of a model, to compare between workers."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in named]


def cloned(model: nn.Module, prefix: str) -> dict[str, Tensor]:
    """All that a model's file has in it, by names that begin with the prefix."""
    return {prefix + name: value.clone() for name, value in model.state_dict().items()}


def save_tensors(path: str, tensors: dict[str, Tensor]) -> None:
    """Write tensors to a safetensors file."""
    from safetensors.torch import save_file

    save_file(tensors, path)


def own_places(buckets: Sequence[Bucket]) -> Places:
    """Ordinary memory of this process; what is given is what is seen."""
    params = [np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets]
    gradient = [np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets if bucket.trainable]
    return Places(params, gradient, gradient)


def requires_closure(optimizer: Optimizer) -> bool:
    """True for an optimizer that computes the gradient again and again in one step, as LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def _check(optimizer: Optimizer, model: nn.Module, trained: Sequence[Tensor]) -> None:
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
