"""5. Gossip: what workers take of each other cancels out, so that the mean moves only by applied gradients.

Who leaves in the midst of a round has given parameters for which it takes none, or the other way round. That
moves the mean, by what the record says; it may happen to nobody else, and in no other round. A newcomer adds the
parameters that it was given; it is a life of its own, which shares no round with an earlier life of its worker.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.core.actions import Action, Combine, Compute
from weft.core.events import Event, Received
from weft.core.names import INBOX, PARAMS, NodeId
from weft.fuzz.checks.conservation import ROUNDING, held
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.ledger import GROUND, Array
from weft.fuzz.witness import life_of
from weft.sim.faults.in_flight import RECEIVED, MessageInFlight

MIX = "mix"
"""The kind of message that carries parameters to be averaged."""

Entry = tuple[int, NodeId, Event, Sequence[Action]]
"""What a recording keeps: when, who, what and its answer."""


class MixTaken(NamedTuple):
    """One life of a worker took so much of another's parameters of a round."""

    clock: int
    bucket: int
    taker: int
    giver: int
    weight: float


def takes(entries: Iterable[Entry], lives: Iterable[int], senders: Mapping[int, int]) -> list[MixTaken]:
    """All that came into the replicas: what was added to a sum that then became parameters.

    `lives` says whose each entry is; `senders` whose the message is that an event with this `id` tells of.
    """
    open_sums: dict[tuple[int, str, int], list[MixTaken]] = {}
    taken: list[MixTaken] = []
    for (_, _, event, actions), life in zip(entries, lives):
        for action in actions:
            if not isinstance(action, Combine) or action.add is None:
                continue
            if action.into.slot == PARAMS:
                taken += open_sums.pop((life, action.add.slot, action.into.bucket), [])
                continue
            key = life, action.into.slot, action.into.bucket
            if action.keep == 0.0:
                open_sums[key] = []
            if action.add.slot == INBOX:
                assert isinstance(event, Received)
                taker = MixTaken(event.clock, event.bucket, life, senders[id(event)], action.scale)
                open_sums[key].append(taker)
    return taken


def _takes(evidence: Evidence) -> list[MixTaken]:
    senders = {id(message.event): life_of(message.sender) for message in _messages(evidence)}
    return takes(evidence.recording.entries, evidence.simulation.lives, senders)


def moves_by_what_left(evidence: Evidence, is_applied_first: bool) -> Iterator[Violation]:
    """All replicas together hold what was applied and what those who left gave or took alone.

    `is_applied_first` says whether a step's gradient is in the parameters that are given away in its round.
    """
    given = {
        (life_of(message.sender), message.event.clock, message.event.bucket): message.payload
        for message in _messages(evidence)
    }
    own, taken = _own(evidence, is_applied_first), _takes(evidence)
    for bucket in evidence.world.trainable:
        expected = _applied(evidence, is_applied_first) + sum(evidence.taken_over(PARAMS, bucket))
        for take in taken:
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


def _own(evidence: Evidence, is_applied_first: bool) -> dict[tuple[int, int], list[Array]]:
    """The parameters with which each life went into the round of each of its steps."""
    own = {(s.life, s.step): [array.copy() for array in s.params] for s in evidence.sightings}
    if is_applied_first:
        for step in evidence.steps:
            for bucket in evidence.world.trainable:
                place = evidence.scenario.book.place(step.life, step.step)
                own[step.life, step.step][bucket][place] += 1.0 if step.samples else 0.0
    return own


def _ended(evidence: Evidence) -> set[tuple[int, int]]:
    """The rounds that each life ended, or came after: it went on to the next step, or could have."""
    entries = zip(evidence.recording.entries, evidence.simulation.lives)
    return {(life, a.step - 1) for (_, _, _, actions), life in entries for a in actions if isinstance(a, Compute)}


def _applied(evidence: Evidence, is_applied_first: bool) -> Array:
    """The ground of all and every gradient that came to be applied: after the round, unless before it."""
    total: Array = np.zeros(evidence.scenario.book.num_elements)
    total[GROUND] = len(set(evidence.workers).intersection(evidence.world.workers))  # lives of newcomers come after
    ended = _ended(evidence)
    for step in evidence.steps:
        if step.samples and (is_applied_first or (step.life, step.step) in ended):
            total[evidence.scenario.book.place(step.life, step.step)] = 1.0
    return total


def rounds_are_balanced(evidence: Evidence) -> Iterator[Violation]:
    """Every worker gives as much as it takes, but for the rounds that somebody left behind unfinished."""
    net: dict[tuple[int, int, int], float] = {}
    for take in _takes(evidence):
        for life, weight in ((take.giver, take.weight), (take.taker, -take.weight)):
            key = take.clock, take.bucket, life
            net[key] = net.get(key, 0.0) + weight
    uneven = {clock for (clock, _, _), weight in net.items() if abs(weight) > TOLERANCE}
    unexplained = sorted(uneven.difference(_cut(evidence)))
    if unexplained:
        yield Violation(5, f"in rounds {unexplained} somebody gave more than it took, though nobody had left them")


def _cut(evidence: Evidence) -> set[int]:
    """The rounds that each life did not end and others may have begun with it, and those for which the parameters of
    one that left did not arrive. One who was not there at the start is one who left in the first view."""
    messages, ended, views = _messages(evidence), _ended(evidence), evidence.views
    left_in = {life: view.number for life, view in evidence.ends}
    absent = set(evidence.world.workers).difference(evidence.workers)
    left_in |= {life: next(view.number for view in views if life not in view.members) for life in absent}
    cut: set[int] = set()
    for life in {*evidence.world.workers, *evidence.workers}:
        after = left_in.get(life, views[-1].number + 1)
        begun = max([message.event.clock for message in messages if message.view < after], default=-1)
        cut.update(range(max([clock for who, clock in ended if who == life], default=-1) + 1, begun + 1))
        if life in left_in:
            cut.update(
                message.event.clock
                for message in messages
                if life_of(message.sender) == life and message.fate is not RECEIVED
            )
    return cut


def pairs_take_alike(evidence: Evidence) -> Iterator[Violation]:
    """Of two neighbours each takes as much of the other, unless one of them left in the midst of the round."""
    weights, owners = {take[:4]: take.weight for take in _takes(evidence)}, evidence.scenario.owners
    ended = _ended(evidence)
    for (clock, bucket, taker, giver), weight in weights.items():
        back = weights.get((clock, bucket, giver, taker), 0.0)
        is_cut = (giver, clock) not in ended or (not back and taker in evidence.lost)
        if abs(weight - back) > TOLERANCE and not is_cut:
            yield Violation(
                5,
                f"in round {clock} worker {owners[taker]} took {weight:.6g} of worker {owners[giver]}, which took "
                f"{back:.6g} of it "
                f"in bucket {bucket}",
            )
            return
