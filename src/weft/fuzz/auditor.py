"""The auditor: whether the evidence of a run says that a strategy kept what all promise and what it promises itself."""

from collections.abc import Iterator

from weft.collectives.wrapping import Wrapped
from weft.core.invariants import Codecs
from weft.core.strategy import Strategy
from weft.fuzz.checks import equality, fencing, liveness, once, residuals
from weft.fuzz.evidence import Evidence, Violation
from weft.fuzz.promises import Check, check_of

OF_ALL: tuple[Check, ...] = (
    liveness.ends,
    fencing.hears_members_only,
    once.is_finite,
)

OF_EXACT: tuple[Check, ...] = (fencing.takes_nothing_from_the_fenced,)
"""Of all whose ledger can be read: no codec, or one that says numbers as they are."""

OF_CODED: tuple[Check, ...] = (residuals.are_balanced, equality.differences_are_followed)


def audit(evidence: Evidence) -> list[Violation]:
    """Everything that the evidence of a run says against it; after an error only what can still be judged."""
    return [violation for check in _checks(evidence) for violation in _made(check, evidence)]


def _checks(evidence: Evidence) -> Iterator[Check]:
    yield from OF_ALL + OF_EXACT if evidence.is_exact else OF_ALL
    if evidence.error is not None:
        return
    if evidence.scenario.compress is not None:
        yield from OF_CODED
    coded = _coded(evidence)
    for invariant in _spoken_for(evidence.recipe).invariants(evidence.world):
        if coded <= invariant.codecs:
            yield check_of(invariant)


def _coded(evidence: Evidence) -> Codecs:
    """Answers of coded runs are differences, and weights say nothing of what was left out: fewer invariants hold."""
    if evidence.scenario.compress is None:
        return Codecs.NONE
    return Codecs.EXACT if evidence.is_exact else Codecs.ANY


def _spoken_for(recipe: Strategy) -> Strategy:
    """The strategy itself, whatever speaks for it."""
    while isinstance(recipe, Wrapped):
        recipe = recipe.inner
    return recipe


def _made(check: Check, evidence: Evidence) -> Iterator[Violation]:
    """What a check finds; one that raises is a finding of its own, and the others are made all the same."""
    try:
        yield from check(evidence)
    except Exception as error:
        yield Violation.of_auditor(error)
