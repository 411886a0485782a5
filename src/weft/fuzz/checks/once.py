"""2. A contribution (worker, incarnation, step) is applied at most once; the ledger of weights adds up."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from weft.core.names import PARAMS
from weft.fuzz.evidence import TOLERANCE, Evidence, Violation
from weft.fuzz.ledger import GROUND, Array
from weft.fuzz.witness import life_of


def is_finite(evidence: Evidence) -> Iterator[Violation]:
    """What is not a number is excluded everywhere, by its weight of 0."""
    for sighting in evidence.sightings:
        if not all(np.isfinite(array).all() for array in sighting.params):
            yield Violation(2, f"worker {sighting.worker} began step {sighting.step} with numbers that are not finite")
            return
    for node in range(evidence.world.num_nodes):
        if not all(np.isfinite(array).all() for array in evidence.final(node)):
            yield Violation(2, f"{evidence.world.name(node)} ended with numbers that are not finite")


def servers_apply_once(evidence: Evidence) -> Iterator[Violation]:
    """In all that one incarnation of a server held, the weight of a contribution changes once: from 0."""
    for server, bucket, versions in evidence.histories():
        where = f"{evidence.world.name(server)}, bucket {bucket}"
        yield from _rises_once(evidence, where, [version.params for version in versions if version.params[GROUND]])


def workers_apply_once(evidence: Evidence) -> Iterator[Violation]:
    """The same for what each worker held from one iteration to the next."""
    for life, node in evidence.workers.items():
        for bucket in evidence.world.trainable:
            seen = [sighting.params[bucket] for sighting in evidence.sightings if sighting.life == life]
            yield from _rises_once(evidence, f"worker {node.id}, bucket {bucket}", seen, _said_again(evidence, life))


def _said_again(evidence: Evidence, newcomer: int) -> slice:
    """What may be applied once more by a newcomer where messages are coded: steps of the one that welcomed it.

    Its replica, which the newcomer took over, has them in full; what its messages left out of them it still says, to
    all alike. No codec can take that out again for one who has it already.
    """
    for life, welcome in evidence.sponsors:
        if life == newcomer and evidence.scenario.compress is not None:
            places, sponsor = evidence.scenario.book.place, life_of(welcome.sender)
            return slice(places(sponsor, 0), places(sponsor, welcome.event.clock))
    return slice(0)


def workers_apply_their_own(evidence: Evidence) -> Iterator[Violation]:
    """Nobody holds anything of anybody else, but for what a newcomer was given when it came."""
    book = evidence.scenario.book
    given = {
        (evidence.begun_by(welcome), bucket): welcome.payload
        for bucket in evidence.world.trainable
        for welcome in evidence.welcomes(PARAMS, bucket)
    }
    for sighting in evidence.sightings:
        mine = slice(book.place(sighting.life, 0), book.place(sighting.life, book.num_steps))
        for bucket in evidence.world.trainable:
            others = sighting.params[bucket] - given.get((sighting.life, bucket), 0.0)
            others[mine] = others[GROUND] = 0.0
            if others.any():
                yield Violation(2, f"worker {sighting.worker} holds steps of others at its step {sighting.step}")
                return


def _rises_once(
    evidence: Evidence, where: str, history: Sequence[Array], may_rise_again: slice = slice(0)
) -> Iterator[Violation]:
    if len(history) < 2:
        return
    before, after = np.stack(history[:-1]), np.stack(history[1:])
    again = (np.abs(after - before) > TOLERANCE) & (np.abs(before) > TOLERANCE)
    again[:, may_rise_again] &= np.cumsum(again[:, may_rise_again], axis=0) > 1
    for moment, place in np.argwhere(again)[:1]:
        what = "its ground" if place == GROUND else evidence.scenario.book.name(int(place))
        yield Violation(
            2,
            f"{where} had {what} with weight {before[moment, place]:.6g}, and applied it again: "
            f"{after[moment, place]:.6g}",
        )


def servers_count_alike(evidence: Evidence) -> Iterator[Violation]:
    """A contribution counts on all servers with the same weight, or on none; a moved one may have lost some."""
    if evidence.moved:
        return
    world = evidence.world
    held = {bucket: evidence.final(world.server_of(bucket))[bucket] for bucket in world.trainable}
    for bucket in world.trainable[1:]:
        wrong = np.abs(held[bucket] - held[world.trainable[0]])
        if wrong.max() > TOLERANCE:
            place = int(wrong.argmax())
            yield Violation(
                2,
                f"{evidence.scenario.book.name(place)} has weight {held[bucket][place]:.6g} in bucket {bucket} and "
                f"{held[world.trainable[0]][place]:.6g} in bucket {world.trainable[0]}",
            )
            return


def servers_apply_means(evidence: Evidence, may_be_less: bool = False) -> Iterator[Violation]:
    """Whatever a server applies at once are weights that add up to 1, in proportion to the samples.

    `may_be_less`: or to less than 1, all of them by the same factor.
    """
    for server, bucket, versions in evidence.histories():
        held = [version.params for version in versions if version.params[GROUND]]
        yield from _are_means(evidence, f"{evidence.world.name(server)}, bucket {bucket}", held, may_be_less)


def workers_apply_means(evidence: Evidence) -> Iterator[Violation]:
    """The same for what workers apply from one iteration to the next."""
    for life, node in evidence.workers.items():
        for bucket in evidence.world.trainable:
            seen = [sighting.params[bucket] for sighting in evidence.sightings if sighting.life == life]
            yield from _are_means(evidence, f"worker {node.id}, bucket {bucket}", seen)


def _are_means(
    evidence: Evidence, where: str, history: Sequence[Array], may_be_less: bool = False
) -> Iterator[Violation]:
    num_steps, num_lives = evidence.scenario.num_steps, len(evidence.scenario.owners)
    samples = np.concatenate([by_step[:num_steps] for by_step in evidence.scenario.samples[:num_lives]])
    for before, after in pairwise(history):
        weights = (after - before)[1:]
        present = np.abs(weights) > TOLERANCE
        if not present.any():
            continue
        total = min(1.0, float(weights.sum())) if may_be_less else 1.0
        expected = total * np.where(present, samples, 0.0) / samples[present].sum()
        if np.abs(weights - expected).max() > TOLERANCE:
            place = int(np.abs(weights - expected).argmax()) + 1
            yield Violation(
                2,
                f"{where} applied {evidence.scenario.book.name(place)} with weight {weights[place - 1]:.6g} rather "
                f"than {expected[place - 1]:.6g}, its share of the samples of those present",
            )
            return
