"""4. Replicas that somebody really trained."""

from dataclasses import replace

import pytest

from weft.core.events import Received
from weft.fuzz.checks.lineage import (
    asks_only_the_better,
    is_whole,
    newcomers_are_copies,
    newcomers_copy_the_best,
)
from weft.fuzz.evidence import Evidence, Violation
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.plan import Crash, Faults, Rejoin


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


def with_a_newcomer(strategy: str) -> Evidence:
    """A run in which worker 2 is lost and replaced, after a tournament."""
    scenario = next(s for s in (draw(seed, (strategy,)) for seed in range(99)) if s.num_workers == 4)
    faults = Faults((Crash(2, 0.6 * sum(scenario.step_s)), Rejoin(2, 2.5 * sum(scenario.step_s))), notice_s=0.02)
    evidence = run(replace(scenario, num_trained=2, epoch_steps=3, samples=2 * scenario.samples, faults=faults))
    assert [life for life, _ in evidence.sponsors] == [4]
    return evidence


@pytest.mark.parametrize("bucket", [0, 1])
def test_a_newcomer_that_begins_with_other_parameters_than_its_sponsors_is_found(bucket: int) -> None:
    evidence = with_a_newcomer("gossip(topology=ring)")
    assert list(newcomers_are_copies(evidence)) == []
    first = next(sighting for sighting in evidence.sightings if sighting.life == 4)
    first.params[bucket][3] += 0.5
    what = (
        f"worker 2 came and began step {first.step} with other parameters than worker 0, which welcomed it, "
        f"had for step {first.step}"
    )
    assert list(newcomers_are_copies(evidence)) == [Violation(4, what)]


def test_a_newcomer_that_is_not_a_copy_of_the_best_is_found() -> None:
    evidence = with_a_newcomer("population(fraction=0.5)")
    assert list(newcomers_copy_the_best(evidence)) == []
    (_, welcome), last = next(evidence.sponsors), -1
    for message in evidence.messages[: evidence.messages.index(welcome)]:
        event = message.event
        if event.kind == "score" and event.source == welcome.sender.id:
            message.event = replace(event, data={"badness": 7.0})
            last = event.clock
    what = (
        f"worker 2 came in view {welcome.view} and was welcomed by worker {welcome.sender.id}, which had not told the "
        f"best score after epoch {last}"
    )
    assert list(newcomers_copy_the_best(evidence)) == [Violation(4, what)]
