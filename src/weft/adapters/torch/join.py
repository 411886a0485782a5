"""`weft.join` for torch: models and their optimizers, in one call or in several."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from weft.adapters.seeding import seed_of, vary_by_rank
from weft.adapters.torch.device_replica import DeviceReplica, is_elsewhere
from weft.adapters.torch.plain_model import PlainModel
from weft.adapters.torch.replica import TorchReplica
from weft.adapters.torch.worker import TorchWorker
from weft.core.errors import ConfigError
from weft.core.seat import Seat
from weft.core.strategy import Strategy


def join_torch(
    seat: Seat,
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    strategy: Strategy | str | None,
    compress: str | None = None,
) -> TorchWorker:
    """Join with a model and the optimizers of its parameters; it holds worker 0's values afterwards.

    Called again, with another model, it adds that to what trains, and returns the same worker.
    """
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else optimizer
    _check_kinds(model, optimizers)
    worker = seat.face
    if not isinstance(worker, TorchWorker):
        return _join_first(seat, model, optimizers, strategy, compress)
    if strategy is not None or compress is not None:
        raise ConfigError(
            "weft.join was given a strategy or a codec together with a second model.\n"
            "  Name them with the first model; one strategy trains all."
        )
    worker.add(model, optimizers)
    return worker


def _join_first(
    seat: Seat,
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    strategy: Strategy | str | None,
    compress: str | None,
) -> TorchWorker:
    if seat.is_plain:
        plain = PlainModel(model)
        worker = TorchWorker(seat, plain)
        worker.watch(optimizers)
        seat.join(plain, strategy)  # type: ignore[arg-type]
        return worker
    kind = DeviceReplica if is_elsewhere(model) and not seat.is_simulated else TorchReplica
    replica = kind(model, *optimizers)
    worker = TorchWorker(seat, replica)
    worker.watch(optimizers)
    seat.join(replica, strategy, compress)
    if replica.needs_closure:
        seat.check_closures()
    vary_by_rank(seat.rank, seat.seed)
    if seat.rank:
        torch.manual_seed(seed_of(seat.rank, seat.seed, torch.initial_seed()))
    return worker


def _check_kinds(model: Any, optimizers: Any) -> None:
    is_list = isinstance(optimizers, list | tuple) and bool(optimizers)
    wrong = [each for each in optimizers if not isinstance(each, Optimizer)] if is_list else [optimizers]
    if not isinstance(model, nn.Module) or wrong:
        given = type(wrong[0]).__name__ if wrong else "an optimizer"
        raise ConfigError(
            f"weft.join was given a {type(model).__name__} and a {given}, "
            "but wants a torch model and its optimizer.\n  Use weft.join(model, optimizer)."
        )
