"""The torch worker: hooks into `torch.autograd.backward`, gradient accumulation and `optimizer.step`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from types import MethodType
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.optim import Optimizer

from weft.adapters.first_gradient import NUM_ELEMENTS_MAX
from weft.adapters.pacing import paced
from weft.adapters.torch.kept_state import TorchState, optimizer_state, take_optimizer_state, unnamed
from weft.adapters.torch.other_optimizers import refuse_other_optimizers
from weft.adapters.torch.plain import FiniteSteps
from weft.adapters.torch.plain_model import PlainModel
from weft.adapters.torch.replica import TorchReplica
from weft.adapters.torch.shared_loader import LoaderWorker
from weft.adapters.torch.shown_loss import ShownLoss
from weft.adapters.torch.trained import Trained
from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.script_state import FILL, JOIN, RESUME, RUNS_BACKWARD
from weft.core.seat import Seat, current

_plain_backward = torch.autograd.backward


def _watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
    """torch.autograd.backward; after it, the gradient of a worker that has joined is shared.

    A simulated driver switches to other workers only here: inside an autograd hook, a switch would hang.
    """
    seat = current()
    face = None if seat is None else seat.face
    worker = face if isinstance(face, TorchWorker) and face._hears_backward else None
    if worker is None:
        _plain_backward(tensors, *args, **kwargs)
        return
    if not worker._depth:
        worker._shown.before_backward(tensors)
    worker._depth += 1
    try:
        _plain_backward(tensors, *args, **kwargs)
    finally:
        worker._depth -= 1
        if not worker._depth and worker._seat.script.at in RUNS_BACKWARD:
            worker._seat.script.call(RESUME)
    if not worker._depth:  # a checkpointed model runs backward within backward
        worker._backward_returned()


class TorchWorker(LoaderWorker):
    """The worker of `weft.join(model, optimizer)`, for one or several models. A single worker's loop stays as it is."""

    def __init__(self, seat: Seat, replica: TorchReplica | PlainModel) -> None:
        super().__init__(seat)
        seat.face = self
        self._plain = replica if isinstance(replica, PlainModel) else None
        self._replica = replica if isinstance(replica, TorchReplica) else None
        self._optimizers: list[Optimizer] = []
        self._plain_pace = ExitStack()
        self._hears_backward = False
        self._depth = 0
        self._accumulates = False
        self._has_gradient = False
        """A watched backward has run since the last step."""
        self._shown = ShownLoss()
        self._stepped = 0
        """The number of the optimizer that made the last step, from 1; 0: none has."""
        self._is_repeat = False
        """No samples were counted for the gradient that was shared last, so it weighed as the one before."""
        self._filled: set[int] = set()
        """Indices of the parameters whose gradients this backward has filled so far."""
        checkpoints = getattr(seat, "checkpoints", None)
        if checkpoints is not None:
            named = None if self._replica is None else self._replica.named
            self._keep_by(checkpoints, TorchState(lambda: replica.model, self._optimizers, named))
        self._unfilled: list[int] = []
        """Number of parameters of each bucket that this backward has yet to fill."""

    def refuses_newcomers(self, kept: Iterable[Any]) -> str:
        return unnamed(self._optimizers, list(kept))

    def hand_over_own(self, *, with_state: bool) -> Any:
        optimizers = [optimizer_state(optimizer, with_state=with_state) for optimizer in self._optimizers]
        return {"optimizers": optimizers, "buffers": self._buffers()}

    def _buffers(self) -> dict[str, torch.Tensor]:
        """The buffers of the models: no newcomer may average its initial ones into the others', or count anew."""
        return {} if self._replica is None else dict(self._replica.model.named_buffers())

    def arrive(self, step: int, own: Any) -> None:
        super().arrive(step, own)
        for mine, handed in zip(self._optimizers, own["optimizers"], strict=True):
            take_optimizer_state(mine, handed)
        for name, buffer in self._buffers().items():
            buffer.copy_(own["buffers"][name])

    def add(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Join with a further model and the optimizers of its parameters; afterwards it holds worker 0's values."""
        if self._has_begun:
            raise ConfigError(
                "weft.join was called with another model after training had begun.\n"
                "  Let all models join before the training loop."
            )
        if self._plain is None:
            self._seat.script.check(JOIN)  # before anything is changed, and other workers are waited for
        if self._plain is not None:
            self._plain.models.append(model)
        elif self._replica is not None:
            self._replica.add(model, *optimizers)
        self.watch(optimizers)
        self._seat.join_more()

    def watch(self, optimizers: Sequence[Optimizer]) -> None:
        """Hook into the steps of optimizers that have joined."""
        if self._plain is not None:
            for optimizer in optimizers:
                finite = FiniteSteps(self._plain.models[-1], optimizer, getattr(self._seat, "leave_out", None))
                optimizer.register_step_pre_hook(partial(self._begin_plain_step, finite))
                optimizer.register_step_post_hook(self._finish_plain_step)
            if getattr(self._seat, "wants_loss", False):
                self._hear_losses(optimizers)
        elif self._replica is not None:
            self._take_over(self._replica, optimizers)
        self._optimizers += optimizers

    def _take_over(self, replica: TorchReplica, optimizers: Sequence[Optimizer]) -> None:
        """Replace `step` of these optimizers, and register hooks on their parameters' gradients."""
        myself = ref(self)

        def watcher(trained: Trained) -> Callable[[torch.Tensor], None]:
            def fill(parameter: torch.Tensor) -> None:
                worker = myself()
                if worker is not None:
                    worker._fill(trained)

            return fill

        for number, optimizer in enumerate(optimizers, len(self._optimizers)):
            optimizer.step = MethodType(self._step_function(number), optimizer)  # type: ignore[method-assign]
        for trained in replica.trained:
            if trained.owner >= len(self._optimizers):
                # by a weak reference: the garbage collector does not see cycles through a tensor's hooks
                trained.parameter.register_post_accumulate_grad_hook(watcher(trained))  # type: ignore[no-untyped-call]
        self._hear_backward()
        refuse_other_optimizers()

    def _hear_losses(self, optimizers: Sequence[Optimizer]) -> None:
        """Note backwards that fill gradients of these optimizers, to show their losses; the loop is left as it is."""
        filled = self._filled
        for number, parameter in enumerate(p for o in optimizers for group in o.param_groups for p in group["params"]):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda _, number=number: filled.add(number))
        self._hear_backward()

    def _hear_backward(self) -> None:
        self._hears_backward = True
        torch.autograd.backward = _watched_backward
        self._shown.watch()

    def _fill(self, trained: Trained) -> None:
        """The post-accumulate hook: backward, still running, has filled a parameter's gradient."""
        replica = self._replica
        assert replica is not None
        if self._depth and not self._filled and not self._accumulates:
            self._seat.script.call(FILL)
        if self._accumulates or not replica.is_settled or self._seat.is_simulated or replica.needs_closure:
            if not replica.is_settled:
                replica.filled_first.append(trained.index)
            self._filled.add(trained.index)
            return
        if trained.index in self._filled:
            raise ConfigError(
                f"backward filled the gradient of a parameter of shape {tuple(trained.parameter.shape)} twice.\n"
                "  Use torch.utils.checkpoint with use_reentrant=False."
            )
        if not self._unfilled:
            self._unfilled = list(self._per_bucket)
            replica.pull()
            self._mark()
        self._filled.add(trained.index)
        trained.give()
        if trained.parameter.grad is not trained.seen:
            trained.parameter.grad = None  # frees its memory for the gradients of the next layers
        self._unfilled[trained.bucket] -= 1
        if not self._unfilled[trained.bucket]:
            self._seat.gradient_filled(trained.bucket, self._weight())

    def _mark(self) -> None:
        """Write the step mark into the gradient: what all workers must have in common."""
        assert self._replica is not None
        after = self._stepped if len(self._optimizers) > 1 else 0
        self._replica.mark.give(has_new_samples=self._samples is not None, after=after)

    @cached_property
    def _per_bucket(self) -> list[int]:
        assert self._replica is not None
        counts = [0] * sum(bucket.trainable for bucket in self._replica.buckets)
        for trained in self._replica.trained:
            counts[trained.bucket] += 1
        return counts

    def _backward_returned(self) -> None:
        if not self._filled:
            return
        self._shown.after_backward()
        if self._plain is not None:
            self._filled.clear()
            return
        if self._accumulates:
            self._num_gradients += 1
            self._filled.clear()
            return
        self._share_gradient()

    def _share_gradient(self, only: int | None = None) -> None:
        """Share the gradients that backward has filled or, for a step without backward, those of optimizer `only`."""
        replica = self._replica
        assert replica is not None
        self._num_gradients += 1
        self._compare_first(self._gradients())
        if replica.loss is not None:
            replica.loss.fill_(self._shown.last or 0.0)
        self._seat.settle()
        if len(self._unfilled) == 0:
            replica.pull()
            self._mark()
            replica.give(only)
        elif any(self._unfilled):
            with torch.no_grad():
                for trained in replica.trained:
                    if trained.index not in self._filled:
                        trained.give()
        self._filled.clear()
        self._unfilled = []
        self._is_repeat = self._samples is None
        with self._tuned():
            self._seat.backward_finished(self._weight())
        replica.push()
        replica.expose(only)
        self._has_gradient = True

    def _gradients(self) -> Iterator[Any]:
        """The first bytes of each of this worker's own gradients, before they are reduced."""
        assert self._replica is not None
        for trained in self._replica.trained:
            if trained.parameter.grad is not None:
                yield trained.parameter.grad.detach().reshape(-1)[:NUM_ELEMENTS_MAX].view(torch.uint8).cpu().numpy()

    def _step_function(self, number: int) -> Callable[..., Any]:
        def step(optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> Any:
            optimizer._opt_called = True  # type: ignore[attr-defined]
            loss = None if closure is None else self._run_closure(closure)
            self._finish_step(number)
            return loss

        # torch's schedulers warn if `step` was replaced after they wrapped it; this one sets _opt_called as they do
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return step

    def _run_closure(self, closure: Callable[[], Any]) -> Any:
        """The loss that a closure returns; an optimizer that needs closures (LBFGS) makes its whole step here.

        Every call of the closure is one reduction, of its gradient and of its loss: with losses of their own, the
        workers' line searches would take different numbers of steps.
        """
        replica = self._replica
        assert replica is not None
        if not replica.needs_closure:
            with torch.enable_grad():
                return closure()
        self._seat.check_closures()

        def shared_closure() -> Any:
            self._shown.forget()
            loss = closure()
            assert replica.loss is not None
            return replica.loss[0].to(loss.dtype, copy=True) if isinstance(loss, torch.Tensor) else float(replica.loss)

        loss = replica.optimizers.step(shared_closure)
        replica.has_stepped = True
        return loss

    def _finish_step(self, number: int) -> None:
        replica = self._replica
        assert replica is not None
        replica.check_unfrozen()
        replica.unchanged.check()
        replica.optimizers.stepping = number
        if not self._has_gradient:  # the script filled .grad itself, or another optimizer has stepped since backward
            self._share_gradient(number if len(self._optimizers) > 1 else None)
        self._has_gradient = False
        if self._is_repeat and self._samples is not None:
            raise ConfigError(
                f"{self._samples:g} samples were counted after backward, whose gradient then weighed without them.\n"
                "  Call worker.count(...) before backward."
            )
        replica.keep()
        with self._tuned():
            self._seat.step_finished(self._weight(), self._shown.on_step(), is_repeat=self._is_repeat)
        self._stepped = number + 1
        self._count_step()

    def _tune(self, ranges: Mapping[str, tuple[float, float]]) -> Tuning:
        tuning = Tuning(self._groups(), ranges)
        if self._replica is not None:
            self._replica.tuning = tuning
        return tuning

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    def _begin_plain_step(self, finite: FiniteSteps, *_: Any) -> None:
        self._plain_pace.enter_context(paced(self._seat.pace, self.steps, self._groups()))
        self._plain_pace.enter_context(finite.step())

    def _finish_plain_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._plain_pace.close()
        self._num_gradients += 1
        last, loss = self._shown.last, self._shown.on_step()
        if any(callable(value) for value in (*args[1:], *kwargs.values())):  # a closure, maybe called many times
            loss = last
        self._seat.step_finished(self._weight(), loss, is_repeat=self._samples is None)
        self._count_step()

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        """A context in which gradients are accumulated without sharing; the next backward outside shares the sum."""
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

    def _take_written(self) -> None:
        if self._replica is not None and self._replica.is_settled:
            self._replica.unchanged.check()

    def _place_of(self, of: Any) -> int | None:
        joined = self._plain or self._replica
        assert joined is not None
        if of is None:
            return None
        index = next((index for index, model in enumerate(joined.models) if model is of), None)
        if index is None:
            raise ConfigError(
                f"save(of=...) was given a {type(of).__name__} that has not joined.\n"
                "  Give it one of the models that weft.join was given."
            )
        return index

    def check_optimizer(self, optimizer: Optimizer) -> None:
        """Raise ConfigError if an optimizer that has not joined steps parameters that have."""
        if self._replica is None or any(optimizer is each for each in self._optimizers):
            return
        if any(self._replica.optimizers.has(p) for group in optimizer.param_groups for p in group["params"]):
            raise ConfigError(
                f"an optimizer that did not join ({type(optimizer).__name__}) makes a step on parameters that did, "
                "which workers would not share.\n  Give weft.join all optimizers: weft.join(model, [opt_a, opt_b])."
            )

    def report(self, **numbers: Any) -> None:
        self._take_written()
        told: dict[str, Any] = {n: v.detach() if isinstance(v, torch.Tensor) else v for n, v in numbers.items()}
        super().report(**told)
