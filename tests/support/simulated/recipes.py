"""The recipe by which tests of everything registered run a strategy: its defaults, or what makes it speak at once."""

from functools import cache

from weft.config.registry import STRATEGIES, strategy
from weft.core.strategy import Strategy

WITHIN_A_FEW_STEPS = {
    "diloco": "diloco(period=4, momentum=0.4)",
    "bmuf": "bmuf(period=4, block_momentum=0.25)",
    "slowmo": "slowmo(period=4, beta=0.25)",
    "easgd": "easgd(period=4)",
}
"""Methods that by default train alone for longer than a small test, or whose momentum overshoots in it."""

RECIPES = {name: WITHIN_A_FEW_STEPS.get(name, name) for name in STRATEGIES}

VARIANTS = (
    "easgd(period=4, mode=async)",
    "population(method=evolution)",
    "population(method=pso)",
)
"""Recipes whose peers are others than those of the name's own recipe."""


@cache
def recipe(name: str) -> Strategy:
    """What stands for a registered name."""
    return strategy(RECIPES[name])
