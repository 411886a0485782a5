"""Every registered strategy declares what it promises, and how its parameters are drawn, so that it can be hunted."""

from random import Random

import pytest

from weft.config.registry import STRATEGIES, parameters
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.core.invariants import Codecs, Invariant
from weft.core.names import Bucket
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.fuzz.coding import LEAVES_OUT
from weft.fuzz.promises import check_of
from weft.fuzz.scenario import example

NUM_EXAMPLES = 40
SIZES = (2, 4, 5)


def examples(name: str) -> list[Strategy]:
    return [strategy_of(example(name, Random(f"{name}/{seed}"))) for seed in range(NUM_EXAMPLES)]


def promised(recipe: Strategy) -> list[Invariant]:
    """All that a recipe promises in worlds of several sizes, as far as it fits them."""
    found: list[Invariant] = []
    for num_workers in SIZES:
        try:
            roles, graph = recipe.roles(num_workers), recipe.graph(num_workers)
        except ConfigError:
            continue
        world = World(roles, (Bucket(4),), graph, tuple(node % num_workers for node in range(sum(roles))))
        found += recipe.invariants(world)
    return found


def check_promises(name: str) -> None:
    promises = [promise for recipe in examples(name) for promise in promised(recipe)]
    assert promises, f"'{name}' declares no invariants, so that weft fuzz would hardly audit it"
    assert all(callable(check_of(promise)) for promise in promises)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_promises_what_checks_can_audit(name: str) -> None:
    check_promises(name)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_that_may_be_coded_says_what_still_holds_then(name: str) -> None:
    coded = [recipe for recipe in examples(name) if LEAVES_OUT.intersection(recipe.kinds().values())]
    kept = [promise for recipe in coded for promise in promised(recipe) if promise.codecs >= Codecs.EXACT]
    assert kept or not coded


def test_a_strategy_without_promises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STRATEGIES["allreduce"], "invariants", Strategy.invariants)
    with pytest.raises(AssertionError, match="'allreduce' declares no invariants"):
        check_promises("allreduce")


@pytest.mark.parametrize("name", [name for name, cls in STRATEGIES.items() if parameters(cls)])
def test_a_strategy_with_parameters_is_hunted_with_several_of_them(name: str) -> None:
    assert len(set(examples(name))) > 1
