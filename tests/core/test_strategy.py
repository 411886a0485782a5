"""The recipe from which every node's peer is made."""

import pickle
from dataclasses import FrozenInstanceError, dataclass
from random import Random

import pytest

from weft.core.errors import ConfigError
from weft.core.names import Bucket, Result, Role, Roles
from weft.core.strategy import Strategy
from weft.core.world import World

WORLD = World(Roles(2), (Bucket(1),))


@dataclass(frozen=True)
class Recipe(Strategy):
    """A strategy with one parameter."""

    period: int = 3


def test_a_strategy_wants_workers_only_and_no_memory_graph_or_rule_unless_it_says_so() -> None:
    strategy = Strategy()
    assert strategy.roles(4) == Roles(4, 0)
    assert strategy.slots(Role.WORKER, WORLD) == ()
    assert strategy.graph(4) is None
    assert strategy.rules(WORLD) == {}
    assert strategy.result is Result.REPLICA
    assert not strategy.scored
    assert strategy.score == "loss"
    assert not strategy.allows_closures
    assert not strategy.deals_portions
    assert not strategy.tunes


def test_a_strategy_is_for_a_number_of_workers_when_its_roles_and_its_graph_are() -> None:
    class Picky(Strategy):
        def roles(self, num_workers: int) -> Roles:
            if num_workers > 4:
                raise ConfigError("too many")
            return Roles(num_workers)

        def graph(self, num_workers: int) -> None:
            if num_workers % 2:
                raise ConfigError("odd")

    Picky().check(4)
    for num_workers, because in ((6, "too many"), (3, "odd")):
        with pytest.raises(ConfigError, match=because):
            Picky().check(num_workers)


def test_a_strategy_sends_nothing_unless_it_says_so_and_must_make_peers() -> None:
    assert Strategy().kinds() == {}
    with pytest.raises(NotImplementedError):
        Strategy().peer(0, WORLD, Random(0))


def test_a_strategy_is_immutable_picklable_and_comparable() -> None:
    recipe = Recipe(period=5)
    assert recipe == Recipe(5) != Recipe()
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert len({recipe, Recipe(5)}) == 1
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'period'"):
        recipe.period = 6  # type: ignore[misc]
