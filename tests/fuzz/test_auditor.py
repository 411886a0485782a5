"""Every strategy is audited by what it promises."""

import pytest

from weft.config.registry import STRATEGIES
from weft.fuzz.auditor import OF_STRATEGIES, audit
from weft.fuzz.evidence import Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw

SERVED = ("ps", "ssp", "asgd", "dc_asgd", "quorum", "downpour")
CLEAN = ("async_gossip", "gossip", "gossip_grad", "neighbours", "push_sum", *SERVED)


def test_every_promise_is_of_a_registered_strategy() -> None:
    assert set(OF_STRATEGIES) <= set(STRATEGIES)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_strategy_is_found_clean(name: str) -> None:
    assert [audit(run(draw(seed, (name,)))) for seed in range(8)] == [[]] * 8


def test_after_an_error_the_promises_of_the_strategy_are_not_judged() -> None:
    evidence = run(draw(0, CLEAN[:1]))
    evidence.error = KeyError("oops")
    evidence.sightings[1].params[0][:] = 7.0
    assert audit(evidence) == [Violation(1, "KeyError: 'oops'")]
    evidence.error = None
    assert [violation.invariant for violation in audit(evidence)] == [5]
