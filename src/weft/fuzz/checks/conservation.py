"""5. Gossip: mass that is live, in flight or lost with the dead adds up; the mean moves only by applied gradients.
6. What accrues is sent once; a failed send's mass returns.

At the end of a run nothing is in flight. All replicas together, those of the dead as they were at their death included,
hold each applied gradient once and the ground of all workers, but for the messages that were lost with their sender.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from weft.core.names import CENTRE, PARAMS, Buffer
from weft.fuzz.evidence import Evidence, Violation
from weft.fuzz.ledger import GROUND, Array
from weft.fuzz.witness import life_of
from weft.sim.faults.in_flight import CLOSED, FATES, OPEN, RECEIVED
from weft.store.numpy import NumpyStore

ROUNDING = 1e-7


def total_is_conserved(
    evidence: Evidence,
    slot: str,
    in_flight: Mapping[str, float],
    centre: Callable[[int], Array] | None = None,
    inherited: str | None = None,
    is_given_away: bool = False,
) -> Iterator[Violation]:
    """A slot of all workers together holds what was there at first and what was applied.

    `in_flight` says what a message of each kind adds to that total while nobody has it; `centre(bucket)` counts as
    one worker more. A newcomer sets out with what it was given of the slot `inherited`, or else of `slot` itself:
    a copy, unless it `is_given_away`.
    """
    applied = _applied(evidence)
    for bucket in evidence.world.trainable:
        total = held(evidence, slot, bucket)
        if is_given_away:
            total += _lost_with_newcomers(evidence, slot, bucket)
        else:
            total -= sum(evidence.taken_over(inherited or slot, bucket))
        if centre is not None:
            total += centre(bucket)
            total[GROUND] -= 1.0
        for message in evidence.messages:
            if message.event.bucket == bucket and message.fate in (OPEN, CLOSED) and message.event.kind in in_flight:
                total += in_flight[message.event.kind] * message.payload
        wrong = np.abs(total - applied)
        if wrong.max() > ROUNDING:
            place = int(wrong.argmax())
            what = evidence.scenario.book.name(place)
            yield Violation(
                5,
                f"all workers together hold {total[place]:.9g} of {what} in bucket {bucket} of '{slot}', "
                f"but {applied[place]:.9g} was put in",
            )
            return


def _lost_with_newcomers(evidence: Evidence, slot: str, bucket: int) -> Array:
    """What was given to newcomers that never began, or was on its way to them when its sender died."""
    total: Array = np.zeros(evidence.scenario.book.num_elements)
    for message in evidence.welcomes(slot, bucket):
        if message.fate in (OPEN, CLOSED) or (message.fate is RECEIVED and evidence.begun_by(message) is None):
            total += message.payload
    return total


def elastic_total_is_conserved(evidence: Evidence) -> Iterator[Violation]:
    """Workers and their centre together, unless it went down with a server or, in step, a pull with a worker."""
    servers = evidence.world.servers
    if any(version.incarnation for version in evidence.simulation.versions) or (evidence.lost and not servers):
        return
    last = max(evidence.steps, key=lambda step: step.step).worker

    def centre(bucket: int) -> Array:
        if servers:
            return evidence.slot(evidence.world.server_of(bucket), Buffer(PARAMS, bucket))
        return evidence.slot(last, Buffer(CENTRE, bucket))

    inherited = None if servers else CENTRE
    yield from total_is_conserved(evidence, PARAMS, {"answer": -1.0}, centre, inherited)


def ground_is_kept(evidence: Evidence) -> Iterator[Violation]:
    """Weights of whatever is averaged add up to 1: the ground of every replica stays 1."""
    for sighting in evidence.sightings:
        for bucket in evidence.world.trainable:
            if abs(sighting.params[bucket][GROUND] - 1.0) > ROUNDING:
                yield Violation(
                    5,
                    f"worker {sighting.worker} began step {sighting.step} with {sighting.params[bucket][GROUND]:.9g} "
                    f"of its ground in bucket {bucket}: the weights of an average did not add up to 1",
                )
                return


def shared_replica_adds_up(evidence: Evidence) -> Iterator[Violation]:
    """The one replica that all workers write holds each applied gradient once."""
    applied = _applied(evidence)
    applied[GROUND] = 1.0
    for bucket in evidence.world.trainable:
        total = evidence.final(0)[bucket]
        wrong = np.abs(total - applied)
        if wrong.max() > ROUNDING:
            place = int(wrong.argmax())
            what = evidence.scenario.book.name(place)
            yield Violation(5, f"the shared replica holds {total[place]:.9g} of {what} in bucket {bucket}")
            return


def held(evidence: Evidence, slot: str, bucket: int) -> Array:
    """What all workers together hold, or held when they died."""
    total: Array = np.zeros(evidence.scenario.book.num_elements)
    for node in evidence.workers.values():
        assert isinstance(node.store, NumpyStore)
        total += node.store.lend(Buffer(slot, bucket))
    return total


def _applied(evidence: Evidence) -> Array:
    total: Array = np.zeros(evidence.scenario.book.num_elements)
    total[GROUND] = sum(node.peer.world.view == evidence.world.view for node in evidence.workers.values())
    for step in evidence.steps:
        if step.samples:
            total[evidence.scenario.book.place(step.life, step.step)] = 1.0
    return total


def accrued_is_sent_once(evidence: Evidence, slot: str, kind: str) -> Iterator[Violation]:
    """6. All gradients that a worker sent, and what it still keeps, are each of its steps once.

    What was sent was also received, unless a server was moved meanwhile.
    """
    fates = (RECEIVED,) if all(not version.incarnation for version in evidence.simulation.versions) else FATES
    for node in evidence.simulation.nodes:
        if node.program is None or evidence.is_lost(node.id):
            continue
        assert isinstance(node.store, NumpyStore)
        for bucket in evidence.world.trainable:
            total = node.store.lend(Buffer(slot, bucket)).copy()
            messages = [message for message in evidence.messages if message.sender is node]
            messages = [
                message for message in messages if message.event.bucket == bucket and message.event.kind == kind
            ]
            sent = {message.event.clock: message.payload for message in messages if message.fate in fates}
            for body in sent.values():
                total += body
            done = [step for step in evidence.steps if step.life == life_of(node) and step.samples]
            expected = np.zeros_like(total)
            expected[[evidence.scenario.book.place(step.life, step.step) for step in done]] = 1.0
            if np.abs(total - expected).max() > ROUNDING:
                place = int(np.abs(total - expected).argmax())
                _, step = evidence.scenario.book.contribution(place)
                yield Violation(
                    6, f"worker {node.id} sent or kept {total[place]:.6g} of its step {step} in bucket {bucket}"
                )
                return
