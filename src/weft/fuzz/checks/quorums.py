"""3. A step that a quorum closes is of gradients that are not late; late ones are dropped, or join and do not count.

A gradient is late if its worker began with other parameters than those to which it is applied.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from weft.core.events import MembersChanged
from weft.core.names import NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation

Contributions = set[tuple[NodeId, int]]


def are_on_time(evidence: Evidence, num_needed: Callable[[int], int], may_carry: bool) -> Iterator[Violation]:
    """What a server applies at once counts in full if enough of it was computed on what it held until then.

    `num_needed` of so many workers are enough; fewer count by that much less. Late gradients are among them only if
    it `may_carry`. A moved server holds older parameters than some worker has seen: then nothing is judged.
    """
    if evidence.moved:
        return
    begun = _begun(evidence)
    excluded = {(step.life, step.step) for step in evidence.steps if not step.samples}
    for server, bucket, versions in evidence.histories():
        where, sizes = f"{evidence.world.name(server)}, bucket {bucket}", _sizes(evidence, server)
        for before, after in pairwise(versions):
            weights = after.params - before.params
            places = map(int, np.flatnonzero(np.abs(weights) > TOLERANCE))
            taken = {evidence.scenario.book.contribution(place) for place in places}
            in_time = begun.get((bucket, before.params.tobytes()), set())
            late = taken - in_time
            if late and not may_carry:
                what = "applied step {1} of worker {0}, which was computed on older parameters".format(*min(late))
                yield Violation(3, f"{where}, {what}")
                return
            num_workers = [size for since_ns, size in sizes if since_ns <= after.at_ns][-1]
            num_counted = len(in_time & (taken | excluded))
            most = min(1.0, num_counted / num_needed(num_workers))
            if weights.sum() > most + TOLERANCE:
                yield Violation(
                    3,
                    f"{where}, closed a step with a weight of {weights.sum():.6g}, though {num_counted} gradients that "
                    f"were not late are worth {most:.6g}",
                )
                return


def _begun(evidence: Evidence) -> dict[tuple[int, bytes], Contributions]:
    """The steps that workers began with some values of a bucket."""
    begun: dict[tuple[int, bytes], Contributions] = {}
    for sighting in evidence.sightings:
        for bucket in evidence.world.trainable:
            key = bucket, sighting.params[bucket].tobytes()
            begun.setdefault(key, set()).add((sighting.life, sighting.step))
    return begun


def _sizes(evidence: Evidence, server: NodeId) -> list[tuple[int, int]]:
    """Since when a server knew so many workers to be there."""
    sizes = [(0, evidence.world.num_workers)]
    for at_ns, node, event, _ in evidence.recording.entries:
        if node == server and isinstance(event, MembersChanged):
            sizes.append((at_ns, sum(member < evidence.world.num_workers for member in event.members)))
    return sizes
