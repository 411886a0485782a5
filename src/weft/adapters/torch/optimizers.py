"""The optimizers that joined, as one: whose step is made, their groups in a row, and updates with other numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from weft.core.errors import ConfigError


class Optimizers:
    """One or several optimizers of disjoint parameters.

    Each call of one's `step` is a step of its own for all workers. Only that one is run on the worker's own gradient;
    a gradient that came from elsewhere moves the parameters that it has something for, whoever's they are.
    """

    def __init__(self) -> None:
        self.all: list[Optimizer] = []
        self._steps: list[Callable[..., Any]] = []
        """Their own steps, before anybody watched them."""
        self._owners: dict[int, int] = {}
        self.stepping = 0
        """The one whose step the script has called last."""

    def add(self, optimizer: Optimizer) -> None:
        self._owners.update({id(p): len(self.all) for group in optimizer.param_groups for p in group["params"]})
        self.all.append(optimizer)
        self._steps.append(optimizer.step)

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.all for group in optimizer.param_groups]

    def owner(self, parameter: Tensor) -> int:
        """The number of the optimizer that a parameter is in."""
        return self._owners[id(parameter)]

    def has(self, parameter: Tensor) -> bool:
        """One of them holds it."""
        return id(parameter) in self._owners

    def step(self, *args: Any) -> Any:
        """The step of the one whose turn it is."""
        return self._steps[self.stepping](*args)

    def step_where_filled(self) -> None:
        """The steps of those with a gradient."""
        for optimizer, step in zip(self.all, self._steps, strict=True):
            if len(self.all) == 1 or any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
                step()

    def with_numbers(self, hyper: Sequence[Mapping[str, Any]] | None, scale: float, run: Callable[[], Any]) -> None:
        """Run a step with other hyper-parameters meanwhile; what it keeps in its groups stays."""
        if hyper is None and scale == 1.0:
            run()
            return
        groups = self.groups
        changed = [dict(values) for values in hyper] if hyper is not None else [{} for _ in groups]
        for group, values in zip(groups, changed, strict=True):
            if scale != 1.0:
                if "lr" not in group:
                    raise ConfigError(
                        f"this strategy scales the learning rate, which {self._name(group)} has not.\n"
                        "  Use an optimizer with an lr, or allreduce, which does not scale."
                    )
                values["lr"] = values.get("lr", group["lr"]) * scale
        before = [{n: group[n] for n in values if n in group} for group, values in zip(groups, changed, strict=True)]
        for group, values in zip(groups, changed, strict=True):
            group.update(values)
        try:
            run()
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)

    def hyper(self) -> list[dict[str, Any]]:
        """Their hyper-parameters now, as plain data."""
        return [{name: _plain(value) for name, value in group.items() if name != "params"} for group in self.groups]

    def _name(self, group: dict[str, Any]) -> str:
        return next(type(each).__name__ for each in self.all if any(group is mine for mine in each.param_groups))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value
