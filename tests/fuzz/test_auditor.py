"""Every strategy is audited by what it promises."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from weft.config.registry import STRATEGIES
from weft.config.registry import strategy as strategy_of
from weft.core.names import Buffer
from weft.fuzz import auditor
from weft.fuzz.auditor import audit
from weft.fuzz.coding import LEAVES_OUT
from weft.fuzz.evidence import AUDITOR, Evidence, Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw

pytestmark = pytest.mark.slow

SERVED = ("ps", "ssp", "asgd", "dc_asgd", "quorum", "downpour")
CODED = [name for name in STRATEGIES if LEAVES_OUT.intersection(strategy_of(name).kinds().values())]
CLEAN = ("async_gossip", "gossip", "gossip_grad", "neighbours", "push_sum", *SERVED)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_strategy_is_found_clean(name: str) -> None:
    assert [audit(run(draw(seed, (name,)))) for seed in range(4)] == [[]] * 4


@pytest.mark.parametrize("name", CODED)
def test_a_clean_strategy_with_a_codec_is_found_clean(name: str) -> None:
    drawn = [scenario for scenario in (draw(seed, (name,)) for seed in range(40)) if scenario.compress is not None]
    assert [audit(run(scenario)) for scenario in drawn[:2]] == [[]] * 2


def test_what_is_coded_is_audited_by_what_its_codec_can_keep() -> None:
    drawn = [draw(seed, ("allreduce",)) for seed in range(60)]
    whole = next(s for s in drawn if s.compress == "randomk(0.3)")
    for scenario, expected in ((whole, {2, 4, 6}), (replace(whole, compress="onebit", scheme="two_way"), {4, 6})):
        evidence = run(scenario)
        assert audit(evidence) == []
        last = [sighting for sighting in evidence.sightings if sighting.worker not in evidence.lost][-1]
        for sighting in evidence.sightings:
            if sighting.worker == last.worker:
                sighting.params[0][1:] += sighting.step
        for key in evidence.simulation.nodes[last.worker].store.accounts:  # type: ignore[attr-defined]
            evidence.slot(last.worker, Buffer(*key))[:] += 0.5
        assert {violation.invariant for violation in audit(evidence)} == expected


def test_after_an_error_the_promises_of_the_strategy_are_not_judged() -> None:
    evidence = run(draw(0, CLEAN[:1]))
    evidence.error = KeyError("oops")
    evidence.sightings[1].params[0][:] = 7.0
    assert audit(evidence) == [Violation(1, "KeyError: 'oops'")]
    evidence.error = None
    assert [violation.invariant for violation in audit(evidence)] == [5]


def test_a_check_that_raises_is_found_with_its_place_and_the_others_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(evidence: Evidence) -> Iterator[Violation]:
        yield Violation(1, "it hung")
        raise IndexError("out of bounds")

    monkeypatch.setattr(auditor, "OF_ALL", (ends, lambda evidence: iter([Violation(2, "twice")])))
    hung, failed, twice = audit(run(draw(0, CLEAN[:1])))
    assert (hung, twice) == (Violation(1, "it hung"), Violation(2, "twice"))
    first, *frames = failed.what.splitlines()
    assert (failed.invariant, first) == (AUDITOR, "the auditor itself failed: IndexError: out of bounds")
    assert frames[0] == "Traceback (most recent call last):"
    assert frames[-1] == "IndexError: out of bounds"
