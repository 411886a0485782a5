"""BMUF: its parameters and what it refuses; test_outer.py has its facts and commands."""

from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.core.names import Roles
from weft.core.rules import Momentum
from weft.core.world import World
from weft.strategies import BMUF
from weft.testing.peers import ONE


@pytest.mark.parametrize(("num_workers", "momentum"), [(1, 0.0), (2, 0.5), (4, 0.75)])
def test_the_block_momentum_grows_with_the_workers_unless_told(num_workers: int, momentum: float) -> None:
    world = World(Roles(num_workers), ONE)
    assert BMUF().rules(world) == {"outer": Momentum(1.0, momentum, nesterov=True)}
    assert BMUF(block_momentum=0.3).rules(world) == {"outer": Momentum(1.0, 0.3, nesterov=True)}


def test_classical_block_momentum_does_not_look_ahead() -> None:
    rules = BMUF(block_momentum=0.3, block_lr=0.8, nesterov=False).rules(World(Roles(4), ONE))
    assert rules == {"outer": Momentum(0.8, 0.3, nesterov=False)}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"period": -1}, "period is -1, but workers average after a whole number of steps."),
        ({"block_lr": -2.0}, "block_lr is -2.0, but the average is taken in steps above 0."),
        ({"block_momentum": -0.5}, "block_momentum is -0.5, but it is at least 0 and below 1:"),
    ],
)
def test_numbers_out_of_their_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match="bmuf") as caught:
        BMUF(**option)
    assert str(caught.value).startswith(message)
