"""2. Averages count by samples, and an outer rule does with them what its paper says: the ledger of weights adds up.

Workers set out alike and make `period` steps alone. In their mean a step then has the weight that the samples of its
worker have among all samples of the round, of those present. An outer rule that has a rate and a momentum moves by
rate * (1 + momentum + momentum^2 + ...) of that: one power more in every later round and, with Nesterov's, one ahead.
So every weight has a known answer, which is worked out here without a velocity.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.core.names import NodeId
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.ledger import GROUND, Array


class Outer(NamedTuple):
    """What is done with the mean change of a round."""

    rate: float = 1.0
    momentum: float = 0.0
    is_ahead: bool = False
    """Nesterov's: a round sets out where the momentum alone would lead next."""

    def grown(self, ages: Array) -> Array:
        """How often the mean change of a round counts after so many later ones."""
        powers = ages + 1 + self.is_ahead
        return self.rate * (1.0 - self.momentum**powers) / (1.0 - self.momentum)


class RoundContribution(NamedTuple):
    """What a worker brings to a round."""

    places: list[int]
    """Of its steps that had samples."""
    samples: float


Round = dict[NodeId, RoundContribution]


def rounds_count_by_samples(
    evidence: Evidence, period: int, rate: float = 1.0, momentum: float = 0.0, is_ahead: bool = False
) -> Iterator[Violation]:
    """What a worker begins a round with holds every contribution of the rounds before with its known weight.

    A round in which nobody had samples changes nothing, and the momentum rests.
    """
    outer = Outer(rate, momentum, is_ahead)
    rounds = _rounds(evidence, period)
    for life, node in evidence.workers.items():
        if node.peer.world.view != evidence.world.view:
            continue  # a newcomer: that it holds what the others do, `equality` says
        begun = [s for s in evidence.sightings if s.life == life and s.step % period == 0]
        for bucket in evidence.world.trainable:
            for found in _unlike(evidence, life, rounds, [s.params[bucket] for s in begun], outer):
                yield Violation(2, f"worker {node.id}, bucket {bucket}: {found}")
                return


def _rounds(evidence: Evidence, period: int) -> list[Round]:
    rounds: list[Round] = [{} for _ in range(0, evidence.scenario.num_steps, period)]
    for step in evidence.steps:
        if step.samples:
            parts = rounds[step.step // period]
            places, samples = parts.get(step.life, RoundContribution([], 0.0))
            place = evidence.scenario.book.place(step.life, step.step)
            parts[step.life] = RoundContribution([*places, place], samples + step.samples)
    return rounds


def _unlike(
    evidence: Evidence, worker: NodeId, rounds: Sequence[Round], history: Sequence[Array], outer: Outer
) -> Iterator[str]:
    """How the parameters with which a worker began its rounds differ from what is known of them."""
    shares: Array = np.zeros(evidence.scenario.book.num_elements)
    since: Array = np.zeros_like(shares)
    num_counted = 0
    for number, (before, after) in enumerate(pairwise(history)):
        changed = np.abs(after - before) > TOLERANCE
        present = {who: part for who, part in rounds[number].items() if changed[part.places].any()}
        if worker in rounds[number] and worker not in present:
            yield f"nothing of its own steps counts after round {number}"
        num_counted += bool(present)
        for places, samples in present.values():
            shares[places] = samples / sum(part.samples for part in present.values())
            since[places] = num_counted
        expected = shares * outer.grown(num_counted - since)
        wrong = np.abs(after - expected)
        wrong[GROUND] = 0.0
        if wrong.max() > TOLERANCE:
            place = int(wrong.argmax())
            name = evidence.scenario.book.name(place)
            yield f"after round {number} {name} has weight {after[place]:.9g} rather than {expected[place]:.9g}"
