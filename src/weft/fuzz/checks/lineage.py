"""4. A replica is one that somebody really trained: whole, and copied only from one that was better."""

from collections.abc import Iterator

import numpy as np

from weft.core.names import NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.witness import Sighting, life_of


def is_whole(evidence: Evidence) -> Iterator[Violation]:
    """All buckets of a replica are of the same steps, each of them in full: nobody goes on from half a copy."""
    for sighting in evidence.sightings:
        buckets = [sighting.params[bucket] for bucket in evidence.world.trainable]
        halves = np.abs(buckets[0] * (buckets[0] - 1.0)).max() > TOLERANCE
        if halves or any(np.abs(other - buckets[0]).max() > TOLERANCE for other in buckets[1:]):
            yield Violation(
                4, f"worker {sighting.worker} began step {sighting.step} with parts of different replicas in one"
            )
            return


def newcomers_are_copies(evidence: Evidence) -> Iterator[Violation]:
    """A newcomer begins with the step and the parameters with which the worker that welcomed it goes on.

    Hyper-parameters may be its own. If that worker died, or its script ended, before it went on, nobody saw what it
    held then.
    """
    first: dict[int, Sighting] = {}
    held: dict[tuple[int, int], Sighting] = {}
    for sighting in evidence.sightings:  # one that elects after a report begins the same step once more
        first.setdefault(sighting.life, sighting)
        held.setdefault((sighting.life, sighting.step), sighting)
    for life, welcome in evidence.sponsors:
        begun, theirs = first.get(life), held.get((life_of(welcome.sender), welcome.event.clock))
        if begun is None or theirs is None:
            continue
        buckets = [bucket for bucket in range(len(begun.params)) if bucket != evidence.world.tuned]
        pairs = [(begun.params[bucket], theirs.params[bucket]) for bucket in buckets]
        if begun.step != theirs.step or any(np.abs(mine - other).max() > TOLERANCE for mine, other in pairs):
            yield Violation(
                4,
                f"worker {begun.worker} came and began step {begun.step} with other parameters than worker "
                f"{theirs.worker}, which welcomed it, had for step {theirs.step}",
            )
            return


def newcomers_copy_the_best(evidence: Evidence) -> Iterator[Violation]:
    """Who welcomes a newcomer told the best score of the last tournament, of those who told one and are still there.

    Unless the lowest of the other workers, who knows the scores, came itself since: it knows none.
    """
    ended = {life: view.number for life, view in evidence.ends}
    began = {id(message): life for life, message in evidence.sponsors}
    told: dict[int, dict[int, float]] = {}
    for message in evidence.messages:
        event, sponsor = message.event, life_of(message.sender)
        if event.kind == "score" and event.data is not None:
            told.setdefault(event.clock, {})[sponsor] = float(event.data["badness"])  # type: ignore[arg-type]
        if id(message) not in began or not told:
            continue
        came = evidence.workers[began[id(message)]].peer.world.view
        present = [life for life, view in _came_in(evidence).items() if view < came < ended.get(life, came + 1)]
        knows = min(present, key=lambda life: evidence.scenario.owners[life])
        scores = {life: badness for life, badness in told[max(told)].items() if life in present}
        if knows in scores and scores.get(sponsor) != min(scores.values()):
            yield Violation(
                4,
                f"worker {message.target} came in view {came} and was welcomed by worker {message.sender.id}, which "
                f"had not told the best score after epoch {max(told)}",
            )
            return


def _came_in(evidence: Evidence) -> dict[int, int]:
    """The view in which each life came; those of the first view are there from before it."""
    return {life: node.peer.world.view for life, node in evidence.workers.items()}


def asks_only_the_better(evidence: Evidence, by: str) -> Iterator[Violation]:
    """Who is asked for what it has told a better score (a smaller number) for that epoch."""
    told: dict[tuple[NodeId, int], float] = {}
    for message in evidence.messages:
        event = message.event
        if event.kind == "score":
            assert event.data is not None
            told[event.source, event.clock] = float(event.data[by])  # type: ignore[arg-type]
        elif event.kind == "ask" and not told[message.target, event.clock] < told[event.source, event.clock]:
            yield Violation(
                4,
                f"worker {event.source} asked worker {message.target} after epoch {event.clock}, which had told "
                f"{told[message.target, event.clock]:g}, no better than {told[event.source, event.clock]:g}",
            )
            return
