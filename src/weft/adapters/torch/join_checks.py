"""Checks of weft.join on a torch model and its optimizers, before anything is shared."""

import inspect
from collections import Counter
from collections.abc import Collection, Sequence

from torch import nn
from torch.optim import Optimizer

from weft.core.errors import ConfigError


def check_joining(
    model: nn.Module,
    optimizers: Sequence[Optimizer],
    models: Sequence[nn.Module],
    others: Sequence[Optimizer],
    trained_before: Collection[int] = (),
) -> None:
    """Raise ConfigError if model and optimizers do not belong together, or not with `models` and `others`, which joined
    before.

    `trained_before` are the ids of the parameters that train already. Frozen ones may be in several models.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    held = Counter(id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"])
    if not trained:
        raise ConfigError(
            "the model has no parameters that require a gradient, so there is nothing to train.\n"
            "  Give weft.join the model whose parameters the optimizer holds."
        )
    strangers = sum(parameter not in names for parameter in held)
    if strangers:
        raise ConfigError(
            f"the optimizer holds {strangers} tensors that are not of the model, so workers would not share them.\n"
            "  Make them parameters of the model that joins."
        )
    left_out = [name for parameter, name in names.items() if parameter in trained and parameter not in held]
    if left_out:
        raise ConfigError(
            f"'{left_out[0]}'{_and_others(left_out)} can be trained, but no optimizer that joins has it, so workers "
            "would not share what becomes of it.\n  Give weft.join all optimizers of the model, "
            "weft.join(model, [opt_a, opt_b]), or freeze it: parameter.requires_grad_(False)."
        )
    twice = [names[parameter] for parameter, count in held.items() if count > 1 and parameter in trained]
    known = {id(parameter) for other in models for parameter in other.parameters()}
    twice += [name for p, name in names.items() if p in trained_before or (p in trained and p in known)]
    if twice:
        raise ConfigError(
            f"'{twice[0]}'{_and_others(twice)} joined twice: it is in two optimizers, or in two models.\n"
            "  Let each parameter join once, with one optimizer; what is frozen before the first weft.join may be in "
            "several models."
        )
    several = [*others, *optimizers]
    if len(several) > 1 and any(requires_closure(optimizer) for optimizer in several):
        raise ConfigError(
            f"{len(several)} optimizers joined, and one of them computes gradients again and again in its step.\n"
            "  Let such an optimizer (LBFGS) join alone, with all parameters."
        )


def requires_closure(optimizer: Optimizer) -> bool:
    """Whether the optimizer computes gradients repeatedly in one step, as LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _and_others(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
