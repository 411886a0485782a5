"""6. What codecs leave out is kept, and what nobody heard comes back."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weft.core.names import Buffer
from weft.fuzz.checks import residuals
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import Scenario, draw
from weft.sim.faults.in_flight import RECEIVED, RETURNED
from weft.sim.faults.plan import Faults


def scenario(name: str, compress: str, scheme: str | None = None, collective: str | None = None) -> Scenario:
    """A world of three workers without faults."""
    drawn = next(s for s in (draw(seed, (name,)) for seed in range(99)) if s.num_workers == 3)
    coding: dict[str, Any] = {"compress": compress, "scheme": scheme, "collective": collective}
    return replace(drawn, num_steps=11, num_trained=1, has_state=False, faults=Faults(), **coding)


@pytest.fixture
def pushed() -> Evidence:
    return run(scenario("asgd(servers=1)", "topk(0.002)"))


def test_accounts_are_balanced_whatever_the_codec_and_the_scheme(pushed: Evidence) -> None:
    reduced = [("onebit", "two_way"), ("onebit", "gather"), ("randomk(0.3)", "sums"), ("topk(0.002)", "sparse")]
    for evidence in (pushed, *(run(scenario("allreduce", *coding, "ring")) for coding in reduced)):
        assert list(residuals.are_balanced(evidence)) == []
        store = evidence.simulation.nodes[1].store
        assert any(np.any(store.lend(Buffer(*key))) for key in store.accounts)  # type: ignore[attr-defined]


def test_a_residual_that_was_forgotten_is_found(pushed: Evidence) -> None:
    kept = pushed.slot(1, Buffer("push:residual", 0))
    place = int(kept.argmax())
    kept[place] = 0.0
    assert [tuple(found) for found in residuals.are_balanced(pushed)] == [
        (
            6,
            f"worker 1 keeps 0 of {pushed.scenario.book.name(place)} in bucket 0 of 'push:residual', "
            "but has yet to say 1",
        )
    ]


def test_what_nobody_heard_must_have_come_back(pushed: Evidence) -> None:
    message = next(message for message in pushed.messages if message.event.kind == "push" and message.sender.id == 2)
    assert message.fate is RECEIVED
    message.fate = RETURNED
    (violation,) = residuals.are_balanced(pushed)
    assert violation.what.startswith("worker 2 keeps 0 of step 0 of worker 2 in bucket 0")
    pushed.slot(2, Buffer("push:residual", 0))[pushed.scenario.book.place(2, 0)] = 1.0
    assert list(residuals.are_balanced(pushed)) == []


def test_what_a_lost_worker_kept_is_not_asked_for(pushed: Evidence) -> None:
    pushed.slot(1, Buffer("push:residual", 0))[:] = 7.0
    pushed.lost.add(1)
    assert list(residuals.are_balanced(pushed)) == []
    assert list(residuals.are_applied_or_kept(pushed)) == []


def test_a_gradient_counts_or_is_kept_and_never_both(pushed: Evidence) -> None:
    assert list(residuals.are_applied_or_kept(pushed)) == []
    book = pushed.scenario.book
    server, kept = pushed.simulation.nodes[3].store.replica.params[0], pushed.slot(1, Buffer("push:residual", 0))  # type: ignore[attr-defined]
    place = int(kept.argmax())
    server[place] = 0.5
    assert [found.what for found in residuals.are_applied_or_kept(pushed)] == [
        f"{book.name(place)} counts in bucket 0, and worker 1 keeps 1 of it"
    ]
    server[place] = kept[place] = 0.0
    assert [found.what for found in residuals.are_applied_or_kept(pushed)] == [
        f"{book.name(place)} does not count in bucket 0, and worker 1 keeps 0 of it"
    ]
    assert list(residuals.are_applied_or_kept(pushed, may_drop=True)) == []
    kept[place] = 0.5
    assert len(list(residuals.are_applied_or_kept(pushed, may_drop=True))) == 1


def test_what_has_accrued_was_not_sent_yet() -> None:
    evidence = run(scenario("downpour(push=5, fetch=5)", "threshold(0.5)"))
    assert list(residuals.are_applied_or_kept(evidence, accrued="downpour.accrued")) == []
    (violation,) = residuals.are_applied_or_kept(evidence)
    assert violation.what == "step 10 of worker 0 does not count in bucket 0, and worker 0 keeps 0 of it"


def test_without_servers_the_worker_of_the_last_step_holds_what_counts() -> None:
    evidence = run(scenario("allreduce", "randomk(0.3)", "gather", "ring"))
    assert list(residuals.are_applied_or_kept(evidence)) == []
    last = max(evidence.steps, key=lambda step: step.step).worker
    evidence.simulation.nodes[last].store.replica.params[0][1:] = 0.0  # type: ignore[attr-defined]
    assert len(list(residuals.are_applied_or_kept(evidence))) == 1
