"""4. Replicas that somebody really trained."""

from dataclasses import replace

import pytest

from weft.core.events import Received
from weft.fuzz.checks.lineage import asks_only_the_better, is_whole
from weft.fuzz.evidence import Evidence, Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Faults


def ran(strategy: str) -> Evidence:
    """A run without faults of a model of two buckets."""
    scenario = next(s for s in (draw(seed, (strategy,)) for seed in range(99)) if s.num_workers == 4)
    return run(replace(scenario, num_trained=2, faults=Faults()))


@pytest.mark.parametrize(("bucket", "value"), [(0, 0.5), (1, 0.5), (1, 1.0)])
def test_half_a_copy_is_found(bucket: int, value: float) -> None:
    evidence = ran("population(fraction=0.5)")
    assert list(is_whole(evidence)) == []
    first = evidence.sightings[0]
    first.params[bucket][3] = value
    what = f"worker {first.worker} began step 0 with parts of different replicas in one"
    assert list(is_whole(evidence)) == [Violation(4, what)]


@pytest.mark.parametrize(
    ("strategy", "by"), [("population(fraction=0.5)", "badness"), ("population(method=pso)", "best")]
)
def test_asking_one_that_is_no_better_is_found(strategy: str, by: str) -> None:
    evidence = ran(strategy)
    assert list(asks_only_the_better(evidence, by)) == []
    asked = next(message for message in evidence.messages if message.event.kind == "ask")
    source, clock = asked.event.source, asked.event.clock
    for message in evidence.messages:
        if message.event.kind == "score" and (message.event.source, message.event.clock) == (asked.target, clock):
            message.event = Received(asked.target, "score", clock, 0, None, 1.0, {by: 7.0})
        elif message.event.kind == "score" and (message.event.source, message.event.clock) == (source, clock):
            message.event = Received(source, "score", clock, 0, None, 1.0, {by: 7.0})
    what = f"worker {source} asked worker {asked.target} after epoch {clock}, which had told 7, no better than 7"
    assert list(asks_only_the_better(evidence, by)) == [Violation(4, what)]
