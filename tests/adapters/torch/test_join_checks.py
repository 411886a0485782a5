"""Models and optimizers that do not belong together are refused when they join."""

from typing import Any

import pytest
import torch
from torch import nn

from weft.adapters.torch.join_checks import check_joining, requires_closure
from weft.core.errors import ConfigError


def sgd(*parameters: torch.Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD(list(parameters), lr=0.1)


def refusal(model: Any, optimizers: Any, models: Any = (), others: Any = ()) -> str:
    with pytest.raises(ConfigError) as refused:
        check_joining(model, optimizers, models, others)
    return str(refused.value)


def test_a_trained_parameter_that_no_optimizer_has_is_refused_by_name() -> None:
    model = nn.Linear(2, 2)
    assert refusal(model, [sgd(model.bias)]) == (
        "'weight' can be trained, but no optimizer that joins has it, so workers would not share what becomes of it.\n"
        "  Give weft.join all optimizers of the model, weft.join(model, [opt_a, opt_b]), or freeze it: "
        "parameter.requires_grad_(False)."
    )
    model.weight.requires_grad_(False)
    check_joining(model, [sgd(model.bias)], [], [])


def test_a_parameter_in_two_optimizers_or_two_models_is_refused() -> None:
    model = nn.Linear(2, 2)
    expected = (
        "'weight'{} joined twice: it is in two optimizers, or in two models.\n"
        "  Let each parameter join once, with one optimizer; what is frozen before the first weft.join may be in "
        "several models."
    )
    both = sgd(*model.parameters())
    assert refusal(model, [both, sgd(model.weight)]) == expected.format("")
    assert refusal(model, [both], [model], []) == expected.format(" (and 1 more)")


def test_a_frozen_part_may_be_in_several_models_and_optimizers() -> None:
    part = nn.Linear(2, 2).requires_grad_(False)
    first, second = nn.Sequential(part, nn.Linear(2, 1)), nn.Sequential(part, nn.Linear(2, 1))
    both = [sgd(part.weight, *first[1].parameters()), sgd(part.weight)]
    check_joining(first, both, [], [])
    check_joining(second, [sgd(*second.parameters())], [first], both)
    part.requires_grad_(True)
    assert "'0.weight' (and 1 more) joined twice" in refusal(second, [sgd(*second.parameters())], [first], both)


def test_what_trains_already_is_refused_though_it_was_frozen_since() -> None:
    part = nn.Linear(2, 2)
    second = nn.Sequential(part, nn.Linear(2, 1))
    optimizers, before = [sgd(*second.parameters())], {id(part.weight)}
    part.requires_grad_(False)
    with pytest.raises(ConfigError, match=r"^'0\.weight' joined twice"):
        check_joining(second, optimizers, [part], [], before)


def test_an_optimizer_with_closures_joins_alone() -> None:
    model = nn.Linear(2, 2)
    lbfgs = torch.optim.LBFGS([model.weight])
    assert requires_closure(lbfgs)
    assert refusal(model, [lbfgs, sgd(model.bias)]) == (
        "2 optimizers joined, and one of them computes gradients again and again in its step.\n"
        "  Let such an optimizer (LBFGS) join alone, with all parameters."
    )
