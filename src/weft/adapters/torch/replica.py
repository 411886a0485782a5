"""Torch models and their optimizers as flat buckets: parameters become views of the buckets' memory."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from weft.adapters.torch.bucket_layout import BUCKET_BYTES_MAX, BucketLayout, bucketed, by_type
from weft.adapters.torch.ensemble_call import predicting_together
from weft.adapters.torch.factors import FactorCapture
from weft.adapters.torch.join_checks import check_joining, requires_closure
from weft.adapters.torch.momentum import check_no_momentum, taken_momentum
from weft.adapters.torch.optimizers import Optimizers
from weft.adapters.torch.saving import check_finite
from weft.adapters.torch.shared_update import SharedUpdate
from weft.adapters.torch.sliced import works_element_by_element
from weft.adapters.torch.step_mark import StepMark
from weft.adapters.torch.trained import Trained
from weft.adapters.torch.unchanged import Unchanged
from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.names import GRADIENT, PARAMS, Bucket
from weft.core.seat import Number, ReplicaMemory
from weft.model_files import write_model


class TorchReplica:
    """Trained parameters in buckets, in the order of backward; float buffers in last buckets.

    A bucket has parameters of one optimizer. `apply` runs the user's own: buckets that are not given have no gradient
    meanwhile, which every torch optimizer skips. An optimizer with a closure makes its steps itself; the loss that its
    closure found is a last bucket of one number, so that all workers search along the same line.
    """

    def __init__(self, model: nn.Module, *optimizers: Optimizer) -> None:
        self.joined: list[tuple[nn.Module, tuple[Optimizer, ...]]] = []
        self.optimizers = Optimizers()
        self.has_stepped = False
        """An optimizer with a closure has already moved the parameters."""
        self.device: str | None = None
        self.trained: list[Trained] = []
        self.filled_first: list[int] = []
        """Indices of the parameters that the first backward filled, in its order."""
        self._settled_order: list[int] = []
        """Indices of the parameters in the order in which they lie in the buckets: worker 0's, in real runs."""
        self._bucket_bytes_max: int | None = None
        self.needs_closure = False
        self.loss: Tensor | None = None
        self.buckets: tuple[Bucket, ...] = ()
        self.is_settled = False
        self.unchanged = Unchanged()
        self._frozen: list[Tensor] = []
        self._buffers: list[Tensor] = []
        self._flats: list[BucketLayout] = []
        self._arrays: dict[str, Sequence[Any]] = {}
        self.shared_update: SharedUpdate | None = None
        self.tuning: Tuning | None = None
        self._capture: FactorCapture | None = None
        self._has_given_up_momentum = False
        self.add(model, *optimizers)
        self.mark = StepMark(self.trained[0].parameter.dtype)

    def add(self, model: nn.Module, *optimizers: Optimizer) -> None:
        """Add a model with the optimizers of its parameters."""
        trained = [p for p in model.parameters() if p.requires_grad]
        trained_before = {id(trained.parameter) for trained in self.trained}
        check_joining(model, optimizers, self.models, self.optimizers.all, trained_before)
        known = {id(buffer) for buffer in self._buffers}  # of a frozen part that several models share
        buffers = [b for b in model.buffers() if b.is_floating_point() and id(b) not in known]
        self._check_types([*trained, *buffers])
        for optimizer in optimizers:
            self.optimizers.add(optimizer)
        start = len(self.trained)
        self.trained += [Trained(start + i, p, self.optimizers.owner(p)) for i, p in enumerate(trained)]
        self._frozen += [p for p in model.parameters() if not p.requires_grad]
        self._buffers += buffers
        self.joined.append((model, optimizers))
        self.unchanged.add(model, optimizers)
        self.needs_closure = requires_closure(self.optimizers.all[0])
        self.loss = torch.zeros(1, dtype=torch.float64) if self.needs_closure else None
        self.is_settled = False

    @property
    def models(self) -> list[nn.Module]:
        return [model for model, _ in self.joined]

    @property
    def model(self) -> nn.Module:
        """The model that joined, or a ModuleList of several."""
        return self.models[0] if len(self.models) == 1 else nn.ModuleList(self.models)

    @property
    def brought(self) -> tuple[Any, ...]:
        return *self.models, *self.optimizers.all

    @property
    def num_optimizers(self) -> int:
        return len(self.optimizers.all)

    def steps(self, bucket: int) -> bool:
        return self.optimizers.owner(self._flats[bucket].tensors[0]) == self.optimizers.stepping

    def expect_equal_steps(self, num_workers: int) -> None:
        self.mark.num_workers = num_workers

    def _is_at_home(self, tensor: Tensor) -> bool:
        """Whether a tensor is on the device on which the model's tensors are expected."""
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
        return all(works_element_by_element(optimizer) for optimizer in self.optimizers.all)

    def order(self) -> Sequence[int]:
        filled = list(dict.fromkeys(self.filled_first))
        return filled + [trained.index for trained in reversed(self.trained) if trained.index not in set(filled)]

    def settle(
        self,
        order: Sequence[int] | None = None,
        allocate: Callable[[Sequence[Bucket]], ReplicaMemory] | None = None,
        bucket_bytes_max: int | None = None,
    ) -> None:
        self._settled_order = list(self.order() if order is None else order)
        self._bucket_bytes_max = bucket_bytes_max
        ordered = [self.trained[index] for index in self._settled_order]
        of_each = [[p.parameter for p in ordered if p.owner == owner] for owner in range(self.num_optimizers)]
        trained = [group for tensors in of_each for group in bucketed(tensors, bucket_bytes_max or BUCKET_BYTES_MAX)]
        kept = by_type([*self._buffers, *([] if self.loss is None else [self.loss])])
        self.mark = StepMark(trained[0][0].dtype)
        trained[0].append(self.mark.tensor)
        self._flats = [BucketLayout(group) for group in (*trained, *kept)]
        self.buckets = tuple(
            Bucket(flat.num_elements, flat.itemsize, i < len(trained), tensors=flat.shapes(), flagged=True)
            for i, flat in enumerate(self._flats)
        )
        memory = (allocate or own_memory)(self.buckets)
        self._arrays = {PARAMS: memory.params, GRADIENT: memory.seen, "given": memory.given}
        masters = dict(enumerate(memory.master or ()))
        for bucket, (flat, array) in enumerate(zip(self._flats, memory.params, strict=True)):
            if memory.is_under_way and bucket < len(trained):
                continue
            flat.write(torch.from_numpy(masters.get(bucket, array)))
        self._live_in(self._flats, [torch.from_numpy(array) for array in memory.params])
        self._settle_gradients(memory)
        if memory.spans is not None:
            self.shared_update = SharedUpdate(self.optimizers, self._flats[: len(trained)], memory)
        self.is_settled = True

    def _live_in(self, flats: Sequence[BucketLayout], memory: Sequence[Tensor]) -> None:
        """Make the tensors views of the buckets' memory, and have `unchanged` keep them so."""
        names = {id(tensor): name for name, tensor in named_tensors(self.model)}
        homes: list[tuple[str, Tensor, Tensor]] = []
        for flat, home in zip(flats, memory, strict=True):
            flat.move(home)
            homes += [
                (names[id(t)], t, v) for t, v in zip(flat.tensors, flat.views(home), strict=True) if id(t) in names
            ]
        self.unchanged.live_in(homes)

    def _settle_gradients(self, memory: ReplicaMemory) -> None:
        known = {id(trained.parameter): trained for trained in self.trained}
        self.mark.given, self.mark.element = memory.given[0], self._flats[0].flags()[-1]
        for bucket, (flat, given, seen) in enumerate(zip(self._flats, memory.given, memory.seen, strict=False)):
            views = flat.views(torch.as_tensor(given)), flat.views(torch.as_tensor(seen))
            for tensor, flag, mine, reduced in zip(flat.tensors, flat.flags(), *views, strict=True):
                if tensor is self.mark.tensor:
                    continue
                trained = known[id(tensor)]
                trained.bucket, trained.flag, trained.given, trained.seen = bucket, flag, mine, reduced
                trained.given_flags, trained.seen_flags = given, seen

    def layout(self) -> Sequence[str]:
        return layout(self.model)

    def show(self) -> None:
        """Nothing to do: the model's tensors are views of the buckets."""

    def names(self, bucket: int) -> Sequence[str]:
        named = {id(t): name for name, t in (*self.model.named_parameters(), *self.model.named_buffers())}
        return [named.get(id(tensor), "") for tensor in self._flats[bucket].tensors]

    def named(self, values: Sequence[Any]) -> dict[str, Tensor]:
        """The tensors of the model, by name, if its buckets had these values."""
        views = (flat.views(torch.as_tensor(array)) for flat, array in zip(self._flats, values, strict=False))
        pairs = ((name, view) for bucket, each in enumerate(views) for name, view in zip(self.names(bucket), each))
        return {name: view for name, view in pairs if name}

    def array(self, slot: str, bucket: int) -> Any:
        return self._arrays[slot][bucket]

    def give(self, only: int | None = None) -> None:
        """Copy `.grad` of all parameters, or of those of optimizer `only`, to the worker's contribution."""
        with torch.no_grad():
            for trained in self.trained:
                if only is None or trained.owner == only:
                    trained.give()
                else:
                    trained.give_nothing()

    def keep(self) -> None:
        """Copy `.grad` of the stepping optimizer's parameters to the gradient that will be applied.

        Gradients of other optimizers are cleared where the gradient is the worker's own: it may be sent to nodes that
        do not know which optimizer has stepped.
        """
        is_own = self._arrays[GRADIENT] is self._arrays["given"]
        with torch.no_grad():
            for trained in self.trained:
                if trained.owner == self.optimizers.stepping:
                    trained.keep()
                elif is_own:
                    trained.keep_nothing()

    def expose(self, only: int | None = None) -> None:
        """Set `.grad` of all parameters, or of those of optimizer `only`, to the gradient to be applied."""
        for trained in self.trained:
            if only is None or trained.owner == only:
                trained.expose()

    def apply(self, gradients: Mapping[int, Any], scale: float, hyper: Any | None) -> None:
        if self.has_stepped:
            self.has_stepped = False
            return
        if self._has_given_up_momentum:
            check_no_momentum(self.optimizers.all[0])
        self.mark.check(gradients)
        seen = self._arrays[GRADIENT]
        if self.shared_update is not None and scale == 1.0 and hyper is None:
            self.shared_update.step(gradients)
            return
        if all(gradients.get(bucket) is array for bucket, array in enumerate(seen)):
            self.optimizers.with_numbers(hyper, scale, self.optimizers.step)
            return
        before = [(trained.parameter, trained.parameter.grad) for trained in self.trained]
        for parameter, _ in before:
            parameter.grad = None
        for bucket, array in gradients.items():
            # a copy, because other receivers share the array, and an optimizer may write to its gradients
            own = array.copy()
            flat = self._flats[bucket]
            for parameter, view, flag in zip(
                flat.tensors, flat.views(torch.from_numpy(own)), flat.flags(), strict=True
            ):
                parameter.grad = view if own[flag] else None
        try:
            self.optimizers.with_numbers(hyper, scale, self.optimizers.step_where_filled)
        finally:
            for parameter, grad in before:
                parameter.grad = grad

    def hyper(self) -> Any:
        return self.optimizers.hyper()

    def flags(self, bucket: int) -> Sequence[int]:
        return self._flats[bucket].flags()

    def give_up_momentum(self) -> float:
        self._has_given_up_momentum = True
        return taken_momentum(self.optimizers.all[0])

    def capture_factors(self) -> None:
        self._capture = FactorCapture(self.model)

    def factors(self, bucket: int) -> Sequence[tuple[int, Any, Any]]:
        flat = self._flats[bucket]
        assert self._capture is not None
        given = flat.views(torch.from_numpy(self._arrays["given"][bucket]))
        return self._capture.take(flat.tensors, [view.numpy() for view in given])

    def check_unfrozen(self) -> None:
        """Raise ConfigError for parameters that were unfrozen after joining: they have no bucket."""
        for parameter in self._frozen:
            if parameter.grad is not None:
                raise ConfigError(
                    f"a parameter of shape {tuple(parameter.shape)} has a gradient, but was frozen at weft.join.\n"
                    "  Set requires_grad before joining."
                )

    def values(self) -> Sequence[Any]:
        tensors = [tensor.detach() for tensor in self._all()]
        return [(t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy() for t in tensors]

    def _all(self) -> list[Tensor]:
        """All tensors of all models, one model after another."""
        return [tensor for model in self.models for _, tensor in named_tensors(model)]

    def begin_with(self, values: Sequence[Any]) -> None:
        """Nothing to do: `values` are the model's own memory."""

    def pull(self) -> None:
        """Copy buffers to the buckets, before the first gradient of a backward is given; here they are views."""

    def push(self) -> None:
        """Copy buffers from the buckets to the model, after a gradient has been shared; here they are views."""

    def tuned(self) -> Sequence[str]:
        return [] if self.tuning is None else self.tuning.lines()

    def share_tuned(self) -> None:
        if self.tuning is not None:
            bucket, values = self.tuning.share()
            self.buckets += (bucket,)
            self._arrays[PARAMS] = [*self._arrays[PARAMS], values]

    def twin(self) -> "TorchReplica":
        assert self.is_settled, "a twin is laid out as its replica is"
        memo: dict[int, Any] = {}
        twins = [deepcopy(joined, memo) for joined in self.joined]
        twin = TorchReplica(twins[0][0], *twins[0][1])
        for model, optimizers in twins[1:]:
            twin.add(model, *optimizers)
        twin.settle(self._settled_order, bucket_bytes_max=self._bucket_bytes_max)
        twin.mark.num_workers = self.mark.num_workers
        return twin

    def run_as(self, models: Sequence[Sequence[Any]], function: Callable[[], Number]) -> float:
        """The value of `function` with these models; of several, each call of the model returns their mean."""
        if len(models) == 1:
            self._put(models[0])
            return float(function())
        members = [partial(self._put, model) for model in models]
        with ExitStack() as stack:
            for model in self.models:
                stack.enter_context(predicting_together(model, members))
            return float(function())

    def _put(self, values: Sequence[Any]) -> None:
        """Copy `values` to the parameters, except where they are the replica's own memory."""
        for array, value in zip(self._arrays.get(PARAMS, ()), values, strict=True):
            if value is not array:
                array[:] = value

    def save(
        self, path: str, models: Mapping[str, Sequence[Any]], *, of: int | None = None, allow_nan: bool = False
    ) -> None:
        mine = self._arrays.get(PARAMS, ())
        others = [array for b, array in enumerate(mine) if any(values[b] is not array for values in models.values())]
        before = [array.copy() for array in others]
        tensors: dict[str, Tensor] = {}
        model = self.model if of is None else self.models[of]
        for prefix, values in models.items():
            self._put(values)
            tensors.update(cloned(model, prefix))
        for array, value in zip(others, before, strict=True):
            array[:] = value
        if not allow_nan:
            check_finite(path, tensors, model, models)
        save_tensors(path, tensors)


def named_tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    """All parameters and buffers of a model."""
    return [*model.named_parameters(), *model.named_buffers()]


def layout(model: nn.Module) -> list[str]:
    """One line for each tensor of a model, for comparison between workers."""
    return [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in named_tensors(model)]


def cloned(model: nn.Module, prefix: str) -> dict[str, Tensor]:
    """Copies of all tensors of a model's state_dict, with `prefix` before their names."""
    return {prefix + name: value.clone() for name, value in model.state_dict().items()}


def save_tensors(path: str, tensors: dict[str, Tensor]) -> None:
    """Write tensors to a safetensors file."""
    from safetensors.torch import save_file

    write_model(path, partial(save_file, tensors))


def own_memory(buckets: Sequence[Bucket]) -> ReplicaMemory:
    """ReplicaMemory in this process's own memory, with one gradient that is both given and seen."""
    params = [np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets]
    gradient = [np.zeros(bucket.num_elements, f"f{bucket.itemsize}") for bucket in buckets if bucket.trainable]
    return ReplicaMemory(params, gradient, gradient)
