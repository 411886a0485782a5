"""4. Sync: equal state after each step. PS: a worker's copy equals a version that the server really had."""

from collections.abc import Iterator

import numpy as np

from weft.core.names import Buffer, NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.witness import Sighting


def replicas_are_equal(evidence: Evidence, period: int = 1) -> Iterator[Violation]:
    """Members that begin the same step, every `period` of them, hold the same.

    A lost worker may have been the only one in whom a lowered reduction had ended, or whom a server that was moved
    had answered: what it began last is its own.
    """
    first: dict[int, Sighting] = {}
    seen = [sighting for sighting in evidence.sightings if sighting.step % period == 0]
    may_differ = evidence.scenario.collective is not None or evidence.moved
    last = {sighting.life: sighting for sighting in seen if may_differ and sighting.life in evidence.lost}
    for sighting in seen:
        if last.get(sighting.life) is sighting or evidence.is_out(sighting.life, sighting.at_ns):
            continue
        other = first.setdefault(sighting.step, sighting)
        pairs = [(sighting.params[bucket], other.params[bucket]) for bucket in evidence.world.trainable]
        if any(np.abs(mine - theirs).max() > TOLERANCE for mine, theirs in pairs):
            yield Violation(
                4, f"workers {other.worker} and {sighting.worker} began step {sighting.step} with different parameters"
            )
            return


def slot_is_alike(evidence: Evidence, slot: str) -> Iterator[Violation]:
    """Workers whose scripts ended after the same number of steps hold the same in a slot.

    Those before a newcomer's first count as its own: it may have come too late to make any.
    """
    num_steps = {worker: evidence.simulation.nodes[worker].step for worker in evidence.world.workers}
    first: dict[int, NodeId] = {}
    for worker in evidence.world.workers:
        if evidence.is_lost(worker):
            continue
        other = first.setdefault(num_steps[worker], worker)
        for bucket in evidence.world.trainable:
            mine, theirs = (evidence.slot(node, Buffer(slot, bucket)) for node in (worker, other))
            if np.abs(mine - theirs).max() > TOLERANCE:
                yield Violation(
                    4,
                    f"workers {other} and {worker} ended after {num_steps[worker]} steps with different values of "
                    f"'{slot}' in bucket {bucket}",
                )
                return


def copies_are_versions(evidence: Evidence, period: int = 1) -> Iterator[Violation]:
    """What a worker begins a step with, every `period` of them, its servers once held, bucket by bucket."""
    versions: dict[int, set[bytes]] = {bucket: set() for bucket in evidence.world.trainable}
    for version in evidence.simulation.versions:
        versions[version.bucket].add(version.params.tobytes())
    for sighting in evidence.sightings:
        if sighting.step % period or sighting.step == 0:
            continue
        for bucket in evidence.world.trainable:
            if sighting.params[bucket].tobytes() not in versions[bucket]:
                yield Violation(
                    4,
                    f"worker {sighting.worker} began step {sighting.step} with values of bucket {bucket} that no "
                    "server ever had",
                )
                return
