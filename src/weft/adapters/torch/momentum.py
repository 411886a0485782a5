"""Momentum that a codec takes over: the optimizer goes on without it."""

from torch.optim import SGD, Optimizer

from weft.core.errors import ConfigError


def taken_momentum(optimizer: Optimizer) -> float:
    """The momentum of plain SGD, which has none from then on; raises ConfigError for any other optimizer."""
    groups = optimizer.param_groups
    if type(optimizer) is not SGD or any(group["nesterov"] or group["dampening"] for group in groups):
        name = type(optimizer).__name__ if type(optimizer) is not SGD else "SGD with nesterov or dampening"
        raise ConfigError(
            f"'dgc' takes over the momentum of torch.optim.SGD, but the optimizer is {name}.\n"
            "  Use torch.optim.SGD(..., momentum=0.9), or 'topk(0.001)', which goes with every optimizer."
        )
    momenta = {float(group["momentum"]) for group in groups}
    if len(momenta) > 1:
        raise ConfigError(
            f"'dgc' takes over one momentum, but the optimizer's groups have {sorted(momenta)}.\n"
            "  Give all groups the same, or use 'topk(0.001)'."
        )
    for group in groups:
        group["momentum"] = 0.0
    return momenta.pop()


def check_no_momentum(optimizer: Optimizer) -> None:
    """Raise ConfigError if the script has set a momentum again after a codec has taken it over."""
    if any(group["momentum"] for group in optimizer.param_groups):
        raise ConfigError(
            "'dgc' has taken over the momentum, but the optimizer has one again: a scheduler sets it.\n"
            "  Use cycle_momentum=False in the scheduler, or 'topk(0.001)', which leaves momentum to the optimizer."
        )
