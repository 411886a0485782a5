"""Campaigns over many seeds."""

from collections import Counter
from typing import Any

import pytest

from weft.config.registry import CODECS
from weft.fuzz import campaign as campaigns
from weft.fuzz.campaign import Coverage, Verdict, campaign, judge, judge_all
from weft.fuzz.evidence import AUDITOR, Evidence, Violation

NAMES = ("async_gossip",)


@pytest.mark.processes
def test_processes_judge_as_one_does() -> None:
    assert list(judge_all(range(6), NAMES, jobs=2)) == [judge(seed, NAMES) for seed in range(6)]


@pytest.mark.slow
def test_coverage_counts_strategies_faults_and_events() -> None:
    heard: list[Any] = []
    coverage = Coverage()
    campaign(coverage, range(5), NAMES, 1, heard.append)
    assert coverage.strategies == {"async_gossip": 5}
    assert sum(coverage.faults.values()) == sum(len(verdict.faults) for verdict in heard)
    assert coverage.median_events == sorted(verdict.num_events for verdict in heard)[2]
    assert coverage.failures == []


@pytest.mark.slow
def test_coverage_counts_codecs_by_their_names() -> None:
    heard: list[Verdict] = []
    coverage = Coverage()
    campaign(coverage, range(12), ("asgd",), 1, heard.append)
    coded = [verdict.codec for verdict in heard if verdict.codec is not None]
    assert 0 < len(coded) < 12
    assert set(coded) <= {"topk | qsgd", *CODECS}
    assert coverage.codecs == Counter(coded)


def test_failures_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "audit", lambda evidence: [Violation(2, "twice")])
    coverage = Coverage()
    campaign(coverage, range(2), NAMES, 1)
    assert [(verdict.seed, verdict.violations) for verdict in coverage.failures] == [
        (0, (Violation(2, "twice"),)),
        (1, (Violation(2, "twice"),)),
    ]


@pytest.mark.processes
def test_an_exception_in_another_process_does_not_lose_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(evidence: Evidence) -> list[Violation]:
        raise IndexError(f"seed {evidence.scenario.seed}")

    monkeypatch.setattr(campaigns, "audit", fails)
    for seed, verdict in enumerate(judge_all(range(3), ("gossip", "ssp(staleness=1)"), jobs=2)):
        assert (verdict.seed, verdict.strategy) == (seed, ("gossip", "ssp")[seed % 2])
        (violation,) = verdict.violations
        assert violation.invariant == AUDITOR
        assert violation.what.startswith(f"the auditor itself failed: IndexError: seed {seed}\nTraceback")
