"""A hook before every optimizer's step in the process: one that did not join may not move parameters that did."""

from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from weft.core.seat import current

_is_watching = False


def refuse_other_optimizers() -> None:
    """Register the hook, once; it asks the worker whose script is running to check the optimizer."""
    global _is_watching
    if not _is_watching:
        _is_watching = True
        register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    seat = current()
    check = None if seat is None else getattr(seat.face, "check_optimizer", None)
    if check is not None:
        check(optimizer)
