"""4. A replica is one that somebody really trained: whole, and copied only from one that was better."""

from collections.abc import Iterator

import numpy as np

from weft.core.names import PARAMS, NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.ledger import Array
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
    first: dict[int | None, Sighting] = {}
    held: dict[tuple[int, int], tuple[Array, ...]] = {}
    for sighting in evidence.sightings:  # one that elects after a report begins the same step once more
        first.setdefault(sighting.life, sighting)
        held.setdefault((sighting.life, sighting.step), sighting.params)
    for bucket, kind in enumerate(evidence.world.buckets):
        for welcome in evidence.welcomes(PARAMS, bucket):
            begun, step = first.get(evidence.begun_by(welcome)), welcome.event.clock
            theirs = held.get((life_of(welcome.sender), step))
            if begun is None or theirs is None or kind.tuned:
                continue
            if begun.step != step or np.abs(begun.params[bucket] - theirs[bucket]).max() > TOLERANCE:
                yield Violation(
                    4,
                    f"worker {begun.worker} came and began step {begun.step} with other values of bucket {bucket} than "
                    f"those with which worker {welcome.sender.id}, which welcomed it, began step {step}",
                )
                return


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
