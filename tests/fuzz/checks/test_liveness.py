"""1. No hang."""

from weft.core.errors import Deadlock
from weft.fuzz.checks.liveness import ends
from weft.fuzz.evidence import Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw


def test_an_error_of_the_run_is_a_violation() -> None:
    evidence = run(draw(0, ("async_gossip",)))
    assert list(ends(evidence)) == []
    evidence.error = Deadlock("stuck")
    assert list(ends(evidence)) == [Violation(1, "Deadlock: stuck")]
