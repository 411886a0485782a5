"""DiLoCo: its parameters and what it refuses; test_outer.py has its facts and commands."""

from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.core.names import Roles
from weft.core.rules import Momentum
from weft.core.world import World
from weft.strategies import DiLoCo
from weft.testing.peers import ONE

WORLD = World(Roles(3), ONE)


def test_the_outer_rule_is_nesterovs_unless_told_otherwise() -> None:
    assert DiLoCo().rules(WORLD) == {"outer": Momentum(0.7, 0.8, nesterov=True)}
    assert DiLoCo(outer="momentum", lr=0.5, momentum=0.8).rules(WORLD) == {"outer": Momentum(0.5, 0.8)}


def test_another_outer_rule_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        DiLoCo(outer="adam")
    assert str(caught.value) == (
        "outer is 'adam', but it is 'nesterov' or 'momentum'.\n"
        "  Use 'diloco(outer=nesterov)', or 'diloco(momentum=0)' for plain steps."
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"period": 0}, "period is 0, but workers average after a whole number of steps."),
        ({"lr": 0.0}, "lr is 0.0, but the average is taken in steps above 0."),
        ({"momentum": 1.0}, "momentum is 1.0, but it is at least 0 and below 1:"),
    ],
)
def test_numbers_out_of_their_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match="diloco") as caught:
        DiLoCo(**option)
    assert str(caught.value).startswith(message)
