"""SlowMo: its parameters and what it refuses; test_outer.py has its facts and commands."""

from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.core.names import Roles
from weft.core.rules import Momentum
from weft.core.world import World
from weft.strategies import SlowMo
from weft.testing.peers import ONE


def test_the_slow_momentum_is_classical() -> None:
    world = World(Roles(3), ONE)
    assert SlowMo().rules(world) == {"outer": Momentum(1.0, 0.5)}
    assert SlowMo(alpha=0.9, beta=0.7).rules(world) == {"outer": Momentum(0.9, 0.7)}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"period": 0}, "period is 0, but workers average after a whole number of steps."),
        ({"alpha": 0.0}, "alpha is 0.0, but the average is taken in steps above 0."),
        ({"beta": 1.5}, "beta is 1.5, but it is at least 0 and below 1:"),
    ],
)
def test_numbers_out_of_their_range_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match="slowmo") as caught:
        SlowMo(**option)
    assert str(caught.value).startswith(message)
