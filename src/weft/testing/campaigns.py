"""The campaign of `weft fuzz` over a strategy that need not be registered: random worlds with faults, audited."""

from collections.abc import Iterable
from unittest.mock import patch

from weft.config.registry import STRATEGIES
from weft.core.strategy import Strategy
from weft.fuzz import stories
from weft.fuzz.auditor import audit
from weft.fuzz.campaign import Verdict, judge
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.fuzz.shrinking import breaks, shrink


def fuzz(strategy: type[Strategy], seeds: Iterable[int] = range(100)) -> list[Verdict]:
    """The seeds whose worlds broke a promise, each with its violations: those of `strategy.invariants`, and what all
    strategies promise. Parameters are drawn by `strategy.example_parameters`; those that it does not draw need
    defaults. The same seed gives the same world.
    """
    name = strategy.__name__
    with patch.dict(STRATEGIES, {name: strategy}):
        verdicts = [judge(seed, (name,)) for seed in seeds]
    return [verdict for verdict in verdicts if verdict.violations]


def story(strategy: type[Strategy], seed: int) -> str:
    """What happened in the world of a seed, line by line, and what was broken; one that broke something is first made
    small, by leaving out faults and steps."""
    with patch.dict(STRATEGIES, {strategy.__name__: strategy}):
        scenario = draw(seed, (strategy.__name__,))
        violations = audit(run(scenario))
        if violations:
            scenario = shrink(scenario, breaks(violations[0].invariant))
        evidence = run(scenario)
        broken = [f"invariant {violation.invariant} is broken: {violation.what}" for violation in audit(evidence)]
        return "\n".join([*stories.opening(scenario), *stories.tell(evidence), *broken])
