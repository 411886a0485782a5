"""9. Portions."""

from dataclasses import replace
from typing import Any

import pytest

from weft.core.actions import Apply, Combine
from weft.core.events import Received, Started
from weft.core.names import Buffer
from weft.fuzz.checks.portions import are_counted_once
from weft.fuzz.evidence import Evidence
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Faults

P, SUM, INBOX = (Buffer(slot, 0) for slot in ("params", "sum", "inbox"))


@pytest.fixture
def evidence() -> Evidence:
    """A run in which portions were handed out."""
    scenario = next(s for s in (draw(seed, ("sandblaster",)) for seed in range(99)) if s.num_portions is not None)
    return run(replace(scenario, faults=Faults()))


def asked(clock: int, num_portions: int) -> tuple[Any, ...]:
    return Received(0, "ask", clock, 0, None, 1.0, {"portions": num_portions}), []


def counted(clock: int, portion: int, *actions: Apply) -> tuple[Any, ...]:
    event = Received(0, "result", clock, 0, INBOX, 1.0, {"portion": portion})
    return event, [Combine(SUM, 1.0, INBOX, 1.0), *actions]


def found(evidence: Evidence, *told: tuple[Any, ...]) -> list[str]:
    server = evidence.world.servers[0]
    evidence.recording.entries[:] = [(0, server, event, actions) for event, actions in told]
    return [violation.what for violation in are_counted_once(evidence)]


def test_a_run_that_counts_each_portion_once_is_not_complained_of(evidence: Evidence) -> None:
    assert any(isinstance(event, Received) and event.kind == "result" for _, _, event, _ in evidence.recording.entries)
    assert list(are_counted_once(evidence)) == []


def test_a_portion_that_counts_twice_in_a_pass_is_found(evidence: Evidence) -> None:
    twice = [asked(4, 2), counted(4, 1), counted(4, 1)]
    assert found(evidence, *twice) == ["portion 1 counted twice in bucket 0 of pass 4"]
    assert found(evidence, asked(4, 2), counted(4, 1), (Started(1), []), counted(4, 1)) == []
    assert found(evidence, asked(4, 2), counted(4, 1), counted(5, 1)) == []


def test_a_pass_that_ends_without_some_portion_is_found(evidence: Evidence) -> None:
    early = [asked(4, 2), counted(4, 1, Apply(SUM, P, "lbfgs"))]
    assert found(evidence, *early) == ["pass 4 ended with 1 of 2 portions"]
    assert found(evidence, asked(4, 1), counted(4, 0, Apply(SUM, P, "lbfgs"))) == []
