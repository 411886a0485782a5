"""The torch worker: watches `backward` and `optimizer.step`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from types import MethodType
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.optim import Optimizer

from weft.adapters.pacing import paced
from weft.adapters.seeding import vary_by_rank
from weft.adapters.torch.device_replica import DeviceReplica, is_elsewhere
from weft.adapters.torch.replica import TorchReplica, Trained, cloned, layout, save_tensors
from weft.adapters.torch.shared_loader import LoaderWorker
from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.seat import Seat, current
from weft.core.strategy import Strategy

_plain_backward = torch.autograd.backward


def _watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
    """torch.autograd.backward, after which a joined worker's driver has its say.

    A simulated driver may switch to other workers only here: inside an autograd hook that would hang.
    """
    seat = current()
    worker = seat.face if seat is not None and isinstance(seat.face, TorchWorker) else None
    if worker is None:
        _plain_backward(tensors, *args, **kwargs)
        return
    worker._depth += 1
    try:
        _plain_backward(tensors, *args, **kwargs)
    finally:
        worker._depth -= 1
    if not worker._depth:  # a checkpointed model runs backward within backward
        worker._backward_returned(tensors)


class TorchWorker(LoaderWorker):
    """The worker of `weft.join(model, optimizer)`. Alone it changes nothing about the user's loop."""

    def __init__(self, seat: Seat, replica: TorchReplica | None, optimizer: Optimizer) -> None:
        super().__init__(seat)
        self._replica = replica
        self._optimizer = optimizer
        self._plain_pace = ExitStack()
        self._depth = 0
        self._accumulates = False
        self._has_gradient = False
        """A watched backward has run since the last step."""
        self._loss: torch.Tensor | None = None
        self._weight = 0.0
        """The samples that the last shared gradient was weighed by."""
        self._filled: set[int] = set()
        """The parameters whose gradients this backward has given so far."""
        self._unfilled: list[int] = []
        """How many parameters of each bucket this backward has yet to fill."""

    def _watch(self) -> None:
        """Take over the optimizer's step and hear of the model's gradients."""
        assert self._replica is not None
        optimizer = self._replica.optimizer
        myself = ref(self)

        def watcher(place: Trained) -> Callable[[torch.Tensor], None]:
            def fill(parameter: torch.Tensor) -> None:
                worker = myself()
                if worker is not None:
                    worker._fill(place)

            return fill

        optimizer.step = MethodType(self._step_function(), optimizer)  # type: ignore[method-assign]
        for place in self._replica.trained:
            # weakly: the collector of cycles cannot see through a tensor's hooks
            place.parameter.register_post_accumulate_grad_hook(watcher(place))  # type: ignore[no-untyped-call]
        torch.autograd.backward = _watched_backward
        self._seat.face = self

    def _fill(self, place: Trained) -> None:
        """Backward, still under way, has filled a parameter's gradient."""
        replica = self._replica
        assert replica is not None
        if self._accumulates or not replica.is_settled or self._seat.is_simulated or replica.needs_closure:
            if not replica.is_settled:
                replica.filled_first.append(place.index)
            self._filled.add(place.index)
            return
        if place.index in self._filled:
            raise ConfigError(
                f"backward filled the gradient of a parameter of shape {tuple(place.parameter.shape)} twice.\n"
                "  Use torch.utils.checkpoint with use_reentrant=False."
            )
        if not self._unfilled:
            self._unfilled = list(self._per_bucket)
            replica.pull()
        self._filled.add(place.index)
        place.give()
        if place.parameter.grad is not place.seen:
            place.parameter.grad = None  # its memory is wanted for the next layers' gradients
        self._unfilled[place.bucket] -= 1
        if not self._unfilled[place.bucket]:
            self._seat.gradient_filled(place.bucket, self._count_samples())

    @cached_property
    def _per_bucket(self) -> list[int]:
        assert self._replica is not None
        counts = [0] * sum(bucket.trainable for bucket in self._replica.buckets)
        for place in self._replica.trained:
            counts[place.bucket] += 1
        return counts

    def _backward_returned(self, tensors: Any) -> None:
        if not self._filled:
            return
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            self._loss = tensors.detach()
        if self._accumulates:
            self._num_gradients += 1
            self._filled.clear()
            return
        self._share_gradient()

    def _share_gradient(self) -> None:
        replica = self._replica
        assert replica is not None
        self._num_gradients += 1
        if replica.loss is not None:
            replica.loss.fill_(0.0 if self._loss is None else float(self._loss))
        self._seat.settle()
        if len(self._unfilled) == 0:
            replica.pull()
            replica.give()
        elif any(self._unfilled):
            with torch.no_grad():
                for place in replica.trained:
                    if place.index not in self._filled:
                        place.give()
        self._filled.clear()
        self._unfilled = []
        self._weight = self._count_samples()
        with self._tuned():
            self._seat.backward_finished(self._weight)
        replica.push()
        replica.expose()
        self._has_gradient = True

    def _step_function(self) -> Callable[..., Any]:
        def step(optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
            optimizer._opt_called = True  # type: ignore[attr-defined]
            loss = None if closure is None else self._run_closure(closure)
            self._finish_step()
            return loss

        # torch's schedulers mark the step they watch and warn when it was replaced; this one tells them itself
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return step

    def _run_closure(self, closure: Callable[[], Any]) -> Any:
        """The loss that a closure gives; an optimizer that needs closures makes its whole step here.

        Every call of the closure is one reduction, of its gradient and of its loss: with losses of their
        own, workers would search along their lines in different numbers of steps.
        """
        replica = self._replica
        assert replica is not None
        if not replica.needs_closure:
            with torch.enable_grad():
                return closure()
        self._seat.check_closures()

        def shared_closure() -> Any:
            loss = closure()
            assert replica.loss is not None
            return replica.loss[0].to(loss.dtype, copy=True) if isinstance(loss, torch.Tensor) else float(replica.loss)

        loss = replica.step(shared_closure)
        replica.has_stepped = True
        return loss

    def _finish_step(self) -> None:
        assert self._replica is not None
        self._replica.check_unfrozen()
        if not self._has_gradient:  # the script filled .grad itself
            self._share_gradient()
        self._has_gradient = False
        samples = self._count_samples()
        if samples and not self._weight:
            raise ConfigError(
                f"{samples:g} samples were counted after backward, whose gradient then weighed nothing.\n"
                "  Call worker.count(...) before backward."
            )
        self._replica.keep()
        loss = None if self._loss is None else float(self._loss)
        self._loss = None
        with self._tuned():
            self._seat.step_finished(samples, loss)
        self._count_step()

    def _tune(self, ranges: Mapping[str, tuple[float, float]]) -> Tuning:
        tuning = Tuning(self._optimizer.param_groups, ranges)
        if self._replica is not None:
            self._replica.tuning = tuning
        return tuning

    def _groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups

    def _begin_plain_step(self) -> None:
        self._plain_pace.enter_context(paced(self._seat.pace, self.steps, self._groups()))

    def _finish_plain_step(self) -> None:
        self._plain_pace.close()
        self._num_gradients += 1
        self._seat.step_finished(self._samples, None)
        self._count_step()

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """Add up gradients without sharing them; the next backward outside shares the sum."""
        if self._takes_portions:
            raise ConfigError(
                "this strategy counts each portion of the data for itself, so gradients of several cannot be added.\n"
                "  Give the loader a larger batch_size instead of worker.accumulate()."
            )
        self._accumulates = True
        try:
            with getattr(self._seat, "no_sync", nullcontext)():
                yield
        finally:
            self._accumulates = False

    def report(self, **numbers: Any) -> None:
        told: dict[str, Any] = {n: v.detach() if isinstance(v, torch.Tensor) else v for n, v in numbers.items()}
        super().report(**told)


def join_torch(
    seat: Seat, model: nn.Module, optimizer: Optimizer, strategy: Strategy | str | None, compress: str | None = None
) -> TorchWorker:
    """Join with a model and the optimizer of its parameters; it holds worker 0's values afterwards."""
    if not isinstance(model, nn.Module) or not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"weft.join was given a {type(model).__name__} and a {type(optimizer).__name__}, "
            "but wants a torch model and its optimizer.\n  Use weft.join(model, optimizer)."
        )
    if seat.is_plain:
        worker = TorchWorker(seat, None, optimizer)
        optimizer.register_step_pre_hook(lambda *_: worker._begin_plain_step())
        optimizer.register_step_post_hook(lambda *_: worker._finish_plain_step())
        seat.join(PlainModel(model), strategy)  # type: ignore[arg-type]
        return worker
    kind = DeviceReplica if is_elsewhere(model) and not seat.is_simulated else TorchReplica
    replica = kind(model, optimizer)
    worker = TorchWorker(seat, replica, optimizer)
    worker._watch()
    seat.join(replica, strategy, compress)
    if replica.needs_closure:
        seat.check_closures()
    seed = vary_by_rank(seat.rank, torch.initial_seed())
    if seed is not None:
        torch.manual_seed(seed)
    return worker


class PlainModel:
    """As much of a replica as a plain loop needs: the model stays the user's own."""

    buckets = ()

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def layout(self) -> list[str]:
        return layout(self.model)

    def save(self, path: str, models: Mapping[str, Any]) -> None:
        """Members of an ensemble are alike where a plain loop runs."""
        save_tensors(path, {name: value for prefix in models for name, value in cloned(self.model, prefix).items()})
