"""5. Gossip: what workers take of each other cancels out, so that the mean moves only by applied gradients.

Who leaves in the midst of a round has given parameters for which it takes none, or the other way round. That
moves the mean, by what the record says; it may happen to nobody else, and in no other round.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.core.actions import Action, Combine, Compute
from weft.core.events import Event, Received
from weft.core.names import INBOX, PARAMS, NodeId
from weft.fuzz.checks.conservation import ROUNDING, held
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.ledger import GROUND, Array
from weft.sim.faults.in_flight import RECEIVED, MessageInFlight

MIX = "mix"
"""The kind of message that carries parameters to be averaged."""

Entry = tuple[int, NodeId, Event, Sequence[Action]]
"""What a recording keeps: when, who, what and its answer."""


class MixTaken(NamedTuple):
    """One worker took so much of another's parameters of a round."""

    clock: int
    bucket: int
    taker: NodeId
    giver: NodeId
    weight: float


def takes(entries: Iterable[Entry]) -> list[MixTaken]:
    """All that came into the replicas: what was added to a sum that then became parameters."""
    open_sums: dict[tuple[NodeId, str, int], list[MixTaken]] = {}
    taken: list[MixTaken] = []
    for _, node, event, actions in entries:
        for action in actions:
            if not isinstance(action, Combine) or action.add is None:
                continue
            if action.into.slot == PARAMS:
                taken += open_sums.pop((node, action.add.slot, action.into.bucket), [])
                continue
            key = node, action.into.slot, action.into.bucket
            if action.keep == 0.0:
                open_sums[key] = []
            if action.add.slot == INBOX:
                assert isinstance(event, Received)
                open_sums[key].append(MixTaken(event.clock, event.bucket, node, event.source, action.scale))
    return taken


def moves_by_what_left(evidence: Evidence, is_applied_first: bool) -> Iterator[Violation]:
    """All replicas together hold what was applied and what those who left gave or took alone.

    `is_applied_first` says whether a step's gradient is in the parameters that are given away in its round.
    """
    given = {
        (message.sender.id, message.event.clock, message.event.bucket): message.payload
        for message in _messages(evidence)
    }
    own = _own(evidence, is_applied_first)
    for bucket in evidence.world.trainable:
        expected = _applied(evidence, is_applied_first)
        for take in takes(evidence.recording.entries):
            if take.bucket == bucket:
                difference = given[take.giver, take.clock, bucket] - own[take.taker, take.clock][bucket]
                expected += take.weight * difference
        total = held(evidence, PARAMS, bucket)
        wrong = np.abs(total - expected)
        if wrong.max() > ROUNDING:
            place = int(wrong.argmax())
            yield Violation(
                5,
                f"all workers together hold {total[place]:.9g} of {evidence.scenario.book.name(place)} "
                f"in bucket {bucket}, but {expected[place]:.9g} was given",
            )
            return


def _messages(evidence: Evidence) -> list[MessageInFlight]:
    return [message for message in evidence.messages if message.event.kind == MIX]


def _own(evidence: Evidence, is_applied_first: bool) -> dict[tuple[NodeId, int], list[Array]]:
    """The parameters with which each worker went into the round of each of its steps."""
    own = {(s.worker, s.step): [array.copy() for array in s.params] for s in evidence.sightings}
    if is_applied_first:
        for step in evidence.steps:
            for bucket in evidence.world.trainable:
                place = evidence.scenario.book.place(step.life, step.step)
                own[step.worker, step.step][bucket][place] += 1.0 if step.samples else 0.0
    return own


def _ended(evidence: Evidence) -> set[tuple[NodeId, int]]:
    """The rounds that each worker ended: it went on to the next step, or could have."""
    entries = evidence.recording.entries
    return {(node, a.step - 1) for _, node, _, actions in entries for a in actions if isinstance(a, Compute)}


def _applied(evidence: Evidence, is_applied_first: bool) -> Array:
    """The ground of all and every gradient that came to be applied: after the round, unless before it."""
    total: Array = np.zeros(evidence.scenario.book.num_elements)
    total[GROUND] = evidence.world.num_workers
    ended = _ended(evidence)
    for step in evidence.steps:
        if step.samples and (is_applied_first or (step.worker, step.step) in ended):
            total[evidence.scenario.book.place(step.life, step.step)] = 1.0
    return total


def rounds_are_balanced(evidence: Evidence) -> Iterator[Violation]:
    """Every worker gives as much as it takes, but for the rounds that somebody left behind unfinished."""
    net: dict[tuple[int, int, NodeId], float] = {}
    for take in takes(evidence.recording.entries):
        for worker, weight in ((take.giver, take.weight), (take.taker, -take.weight)):
            key = take.clock, take.bucket, worker
            net[key] = net.get(key, 0.0) + weight
    uneven = {clock for (clock, _, _), weight in net.items() if abs(weight) > TOLERANCE}
    unexplained = sorted(uneven.difference(_cut(evidence)))
    if unexplained:
        yield Violation(5, f"in rounds {unexplained} somebody gave more than it took, though nobody had left them")


def _cut(evidence: Evidence) -> set[int]:
    """The rounds that each worker did not end and others may have begun with it, and those for which the parameters of
    one that left did not arrive."""
    messages, ended, views = _messages(evidence), _ended(evidence), evidence.views
    left_in = {w: after.number for before, after in pairwise(views) for w in set(before.members) - set(after.members)}
    cut: set[int] = set()
    for worker in evidence.world.workers:
        after = left_in.get(worker, views[-1].number + 1)
        begun = max([message.event.clock for message in messages if message.view < after], default=-1)
        cut.update(range(max(clock for node, clock in ended if node == worker) + 1, begun + 1))
        if worker in left_in:
            cut.update(
                message.event.clock
                for message in messages
                if message.sender.id == worker and message.fate is not RECEIVED
            )
    return cut


def pairs_take_alike(evidence: Evidence) -> Iterator[Violation]:
    """Of two neighbours each takes as much of the other, unless one of them left in the midst of the round."""
    weights = {take[:4]: take.weight for take in takes(evidence.recording.entries)}
    ended = _ended(evidence)
    for (clock, bucket, taker, giver), weight in weights.items():
        back = weights.get((clock, bucket, giver, taker), 0.0)
        is_cut = (giver, clock) not in ended or (not back and taker in evidence.lost)
        if abs(weight - back) > TOLERANCE and not is_cut:
            yield Violation(
                5,
                f"in round {clock} worker {taker} took {weight:.6g} of worker {giver}, which took {back:.6g} of it "
                f"in bucket {bucket}",
            )
            return
