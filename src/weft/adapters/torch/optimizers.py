"""The optimizers that joined, as one: which of them steps, all their groups, and steps with other hyper-parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from weft.core.errors import ConfigError


class Optimizers:
    """One or several optimizers of disjoint parameters.

    Each call of an optimizer's `step` is a step for all workers. Only that optimizer runs on the worker's own gradient;
    a gradient of another worker runs all optimizers whose parameters it has gradients for.
    """

    def __init__(self) -> None:
        self.all: list[Optimizer] = []
        self._steps: list[Callable[..., Any]] = []
        """The optimizers' own `step` methods, before Weft replaced them."""
        self._owners: dict[int, int] = {}
        self.stepping = 0
        """The index of the optimizer whose step the script called last."""

    def add(self, optimizer: Optimizer) -> None:
        self._owners.update({id(p): len(self.all) for group in optimizer.param_groups for p in group["params"]})
        self.all.append(optimizer)
        self._steps.append(optimizer.step)

    @property
    def groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.all for group in optimizer.param_groups]

    def owner(self, parameter: Tensor) -> int:
        """The index of the optimizer that holds a parameter."""
        return self._owners[id(parameter)]

    def has(self, parameter: Tensor) -> bool:
        """Whether one of the optimizers holds a parameter."""
        return id(parameter) in self._owners

    def step(self, *args: Any) -> Any:
        """Run the own step of the optimizer `stepping`."""
        return self._steps[self.stepping](*args)

    def step_where_filled(self) -> None:
        """Run the own steps of the optimizers that have a gradient."""
        for optimizer, step in zip(self.all, self._steps, strict=True):
            if len(self.all) == 1 or any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
                step()

    def with_numbers(self, hyper: Sequence[Mapping[str, Any]] | None, scale: float, run: Callable[[], Any]) -> None:
        """Call `run` while the groups have the hyper-parameters `hyper`, and learning rates times `scale`.

        Afterwards the old values are restored; other entries that a step adds to its groups stay.
        """
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
        """The current hyper-parameters of all groups, as plain data."""
        return [{name: _plain(value) for name, value in group.items() if name != "params"} for group in self.groups]

    def _name(self, group: dict[str, Any]) -> str:
        return next(type(each).__name__ for each in self.all if any(group is mine for mine in each.param_groups))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value
