"""The torch worker: watches `backward` and `optimizer.step`, and shares a DataLoader."""

from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset, Sampler

from weft.adapters.alone import Alone
from weft.adapters.seeding import vary_by_rank
from weft.adapters.torch.order import same_order
from weft.adapters.torch.replica import TorchReplica
from weft.adapters.worker import Worker
from weft.core.errors import ConfigError
from weft.core.seat import Seat, current
from weft.core.strategy import Strategy
from weft.data.static import global_batches, portion

_plain_backward = torch.autograd.backward


def _watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
    """torch.autograd.backward, after which a joined worker's driver has its say.

    The driver may switch to other workers only here: inside an autograd hook that would hang.
    """
    _plain_backward(tensors, *args, **kwargs)
    seat = current()
    if seat is not None and isinstance(seat.face, TorchWorker):
        seat.face._backward_returned(tensors)


class TorchWorker(Worker):
    """The worker of `weft.join(model, optimizer)`. Alone it changes nothing about the user's loop."""

    def __init__(self, seat: Seat, replica: TorchReplica | None) -> None:
        super().__init__(seat)
        self._replica = replica
        self._touched = False
        self._has_gradient = False
        """A watched backward has run since the last step."""
        self._loss: torch.Tensor | None = None

    def _watch(self) -> None:
        """Take over the optimizer's step and hear of the model's gradients."""
        assert self._replica is not None
        optimizer = self._replica.optimizer
        myself = ref(self)

        def touch(parameter: torch.Tensor) -> None:
            worker = myself()
            if worker is not None:
                worker._touched = True

        optimizer.step = MethodType(self._step_function(), optimizer)  # type: ignore[method-assign]
        for parameter, _, _ in self._replica.gradient_views:
            # weakly: the collector of cycles cannot see through a tensor's hooks
            parameter.register_post_accumulate_grad_hook(touch)  # type: ignore[no-untyped-call]
        torch.autograd.backward = _watched_backward
        self._seat.face = self

    def _backward_returned(self, tensors: Any) -> None:
        if not self._touched:
            return
        assert self._replica is not None
        self._touched = False
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            self._loss = tensors.detach()
        self._share_gradient()

    def _share_gradient(self) -> None:
        assert self._replica is not None
        self._num_gradients += 1
        self._replica.collect()
        self._seat.backward_finished(self._count_samples())
        self._replica.expose()
        self._has_gradient = True

    def _step_function(self) -> Callable[..., None]:
        def step(optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> None:
            if closure is not None:
                raise ConfigError(
                    "optimizer.step was given a closure, and no strategy here can run one yet.\n"
                    "  Use an optimizer that steps without one, such as SGD or Adam."
                )
            optimizer._opt_called = True  # type: ignore[attr-defined]
            self._finish_step()

        # torch's schedulers mark the step they watch and warn when it was replaced; this one tells them itself
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return step

    def _finish_step(self) -> None:
        assert self._replica is not None
        self._replica.check_unfrozen()
        if not self._has_gradient:  # the script filled .grad itself
            self._share_gradient()
        self._has_gradient = False
        self._replica.collect()
        loss = None if self._loss is None else float(self._loss)
        self._loss = None
        self._seat.step_finished(self._count_samples(), loss)
        self._count_step()

    def report(self, **numbers: Any) -> None:
        told: dict[str, Any] = {n: v.detach() if isinstance(v, torch.Tensor) else v for n, v in numbers.items()}
        super().report(**told)

    def share(self, loader: "DataLoader[Any]") -> Iterator[Any]:
        """This worker's part of each global batch; `batch_size` is per worker, as with DDP."""
        epoch = self._begin_share()
        if isinstance(self._seat, Alone):
            yield from loader
            return
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            raise ConfigError(
                "share() was given data without places to deal out.\n"
                "  Give it a DataLoader over a dataset that has a length and is read by index."
            )
        if loader.batch_size is None:
            raise ConfigError("the loader has no batch_size, so its batches cannot be shared.\n  Give it one.")
        num_samples = len(loader.sampler)  # type: ignore[arg-type]
        self._seat.plan(self._num_epochs, num_samples, loader.batch_size, loader.drop_last)
        if self.num_workers == 1:
            mine, sizes = _in_process(loader), _sizes(num_samples, loader.batch_size)
        else:
            batches = self._my_batches(loader, loader.batch_size, epoch)
            mine, sizes = self._of_batches(loader, batches), [len(batch) for batch in batches]
        yield from self._counted(zip(mine, sizes))

    def _my_batches(self, loader: "DataLoader[Any]", batch_size: int, epoch: int) -> list[list[int]]:
        order = same_order(loader, self._seat.seed, epoch)
        spans = global_batches(len(order), self.num_workers, batch_size, loader.drop_last)
        parts = [portion(span, self.rank, self.num_workers) for span in spans]
        return [order[start:stop] for start, stop in parts]

    def _of_batches(self, loader: "DataLoader[Any]", batches: list[list[int]]) -> "DataLoader[Any]":
        return DataLoader(
            loader.dataset,
            batch_sampler=_Batches(batches),
            collate_fn=loader.collate_fn,
            generator=torch.Generator().manual_seed(self._seat.seed),
        )


class _Batches(Sampler[list[int]]):
    """Batches of indices that are already known."""

    def __init__(self, batches: list[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def _in_process(loader: "DataLoader[Any]") -> "DataLoader[Any]":
    """The same batches without worker processes, which do not go with simulated workers."""
    if not loader.num_workers:
        return loader
    return DataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=loader.sampler,
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
        generator=loader.generator,
    )


def _sizes(num_samples: int, batch_size: int) -> list[int]:
    """The sizes of a loader's own batches, the last one smaller if it does not divide."""
    return [min(batch_size, num_samples - start) for start in range(0, num_samples, batch_size)]


def join_torch(seat: Seat, model: nn.Module, optimizer: Optimizer, strategy: Strategy | str | None) -> TorchWorker:
    """Join with a model and the optimizer of its parameters; it holds worker 0's values afterwards."""
    if not isinstance(model, nn.Module) or not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"weft.join was given a {type(model).__name__} and a {type(optimizer).__name__}, "
            "but wants a torch model and its optimizer.\n  Use weft.join(model, optimizer)."
        )
    if isinstance(seat, Alone):
        worker = TorchWorker(seat, None)
        optimizer.register_step_post_hook(lambda *_: worker._count_step())
        seat.join(_ForSaving(model), strategy)  # type: ignore[arg-type]
        return worker
    replica = TorchReplica(model, optimizer)
    worker = TorchWorker(seat, replica)
    worker._watch()
    seat.join(replica, strategy)
    seed = vary_by_rank(seat.rank, torch.initial_seed())
    if seed is not None:
        torch.manual_seed(seed)
    return worker


class _ForSaving:
    """As much of a replica as a plain loop needs: alone, the model stays the user's own."""

    buckets = ()

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def save(self, path: str, arrays: Any) -> None:
        from safetensors.torch import save_file

        save_file({name: value.clone() for name, value in self._model.state_dict().items()}, path)
