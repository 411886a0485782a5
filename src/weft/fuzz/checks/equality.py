"""4. Sync: equal state after each step. PS: a worker's copy equals a version that the server really had."""

from collections.abc import Iterator

import numpy as np

from weft.core.names import Buffer, NodeId, Role
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.witness import Sighting
from weft.sim.faults.in_flight import RECEIVED

FOLLOWED = ":held"
"""What is added to a kind to name the slot where a worker keeps what differences to it are added to; a server keeps the
same for each worker, whose number follows."""


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
    """What a worker begins a step with, every `period` of them and a newcomer's first, its servers once held, bucket by
    bucket."""
    versions: dict[int, set[bytes]] = {bucket: set() for bucket in evidence.world.trainable}
    for version in evidence.simulation.versions:
        versions[version.bucket].add(version.params.tobytes())
    begun = set(evidence.world.workers)
    for sighting in evidence.sightings:
        comes_in = sighting.life not in begun
        begun.add(sighting.life)
        if sighting.step == 0 or (sighting.step % period and not comes_in):
            continue
        for bucket in evidence.world.trainable:
            if sighting.params[bucket].tobytes() not in versions[bucket]:
                yield Violation(
                    4,
                    f"worker {sighting.worker} began step {sighting.step} with values of bucket {bucket} that no "
                    "server ever had",
                )
                return


def differences_are_followed(evidence: Evidence) -> Iterator[Violation]:
    """Where answers travel as differences, a worker and its server keep the same of what that worker was told.

    Of those who were told something, and if no server was moved: a moved one has forgotten it, and begins anew.
    """
    if evidence.moved:
        return
    slots = [slot.name for slot in evidence.recipe.slots(Role.WORKER, evidence.world)]
    for slot in (name for name in slots if name.endswith(FOLLOWED)):
        for worker in evidence.world.workers:
            for bucket in evidence.world.trainable:
                if evidence.is_lost(worker) or not _was_told(evidence, worker, slot.removesuffix(FOLLOWED), bucket):
                    continue
                mine = evidence.slot(worker, Buffer(slot, bucket))
                theirs = evidence.slot(evidence.world.server_of(bucket), Buffer(f"{slot}.{worker}", bucket))
                wrong = np.abs(mine - theirs)
                if wrong.max() > TOLERANCE:
                    place = int(wrong.argmax())
                    yield Violation(
                        4,
                        f"worker {worker} was told {mine[place]:.6g} of {evidence.scenario.book.name(place)} in bucket "
                        f"{bucket}, but its server believes {theirs[place]:.6g}",
                    )
                    return


def _was_told(evidence: Evidence, worker: NodeId, kind: str, bucket: int) -> bool:
    """The last life of a worker received something of a kind, in whatever form."""
    view = evidence.simulation.nodes[worker].peer.world.view
    return any(
        message.target == worker
        and message.view >= view
        and message.fate is RECEIVED
        and message.event.bucket == bucket
        and message.event.kind.partition(":")[0] == kind
        for message in evidence.messages
    )
