"""A hook before every optimizer's step in the process: one that did not join may not move parameters that did."""

from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
    register_optimizer_step_pre_hook,
)

from weft.core.seat import current

_is_watching = False


def refuse_other_optimizers() -> None:
    """Register the hook, once; it asks the worker whose script is running to check the optimizer."""
    global _is_watching
    if not _is_watching:
        _is_watching = True
        register_optimizer_step_pre_hook(before_step)


def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    seat = current()
    check = None if seat is None else getattr(seat.face, "check_optimizer", None)
    if check is not None:
        check(optimizer)


def has_hooks(optimizer: Optimizer) -> bool:
    """Whether anything of the script's is called before or after a step of this optimizer."""
    of_all = [*_global_optimizer_pre_hooks.values(), *_global_optimizer_post_hooks.values()]
    has_own = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return bool(has_own) or any(hook is not before_step for hook in of_all)
