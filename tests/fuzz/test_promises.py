"""Promises are found by name; one that no check can audit is refused."""

import pytest

from weft.config.registry import STRATEGIES
from weft.core.errors import ConfigError
from weft.core.invariants import holds
from weft.fuzz.auditor import audit
from weft.fuzz.campaign import judge
from weft.fuzz.checks import staleness
from weft.fuzz.evidence import AUDITOR
from weft.fuzz.promises import CHECKS, check_of
from weft.fuzz.run import run
from weft.fuzz.scenario import draw


def test_every_check_has_a_name_and_nothing_else_has() -> None:
    assert CHECKS["staleness.stays_within"] is staleness.stays_within
    assert {"once.is_finite", "conservation.total_is_conserved", "mixing.pairs_take_alike"} <= set(CHECKS)
    assert not {"conservation.held", "mixing.takes", "staleness._leads", "averages.Outer"} & set(CHECKS)


def test_a_check_is_given_what_its_invariant_tells_it() -> None:
    evidence = run(draw(0, ("ssp(staleness=3)",)))
    evidence.error = None
    assert list(check_of(holds("staleness.stays_within", bound=3))(evidence)) == []
    assert [found.invariant for found in check_of(holds("staleness.stays_within", bound=-1))(evidence)] == [3]


def test_a_promise_that_no_check_audits_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as error:
        check_of(holds("staleness.stay_within", bound=3))
    assert str(error.value) == (
        "a strategy promises 'staleness.stay_within', but src/weft/fuzz/checks/ has no such check.\n"
        "  Did you mean 'staleness.stays_within'?"
    )


@pytest.mark.parametrize(
    ("promise", "problem", "told"),
    [
        (holds("staleness.stays_within"), "missing a required argument: 'bound'", "bound"),
        (holds("once.is_finite", period=2), "got an unexpected keyword argument 'period'", "nothing"),
    ],
)
def test_a_promise_that_tells_its_check_too_little_or_too_much_is_refused(promise, problem, told) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as error:
        check_of(promise)
    assert str(error.value) == (
        f"a strategy promises '{promise.check}', but its check cannot be told that: {problem}.\n  It is told: {told}."
    )


def test_a_campaign_finds_a_promise_that_no_check_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STRATEGIES["ensemble"], "invariants", lambda self, world: (holds("once.upon_a_time"),))
    (found,) = judge(0, ("ensemble",)).violations
    assert (found.invariant, found.what.splitlines()[0]) == (
        AUDITOR,
        "the auditor itself failed: ConfigError: a strategy promises 'once.upon_a_time', "
        "but src/weft/fuzz/checks/ has no such check.",
    )
    with pytest.raises(ConfigError, match="upon_a_time"):
        audit(run(draw(0, ("ensemble",))))
