"""6. Codecs: gradient + old residual = sent + new residual; a failed send's mass returns.

Written from what every Encode was given and said, and from what the ledger holds in the end. What a worker that was
lost has kept went down with it, and is not asked for.
"""

from collections.abc import Iterator

import numpy as np

from weft.core.names import Buffer, NodeId
from weft.fuzz.accounts import Account, AccountingStore, keeps
from weft.fuzz.checks.conservation import ROUNDING
from weft.fuzz.evidence import Evidence, Violation
from weft.fuzz.ledger import Array
from weft.fuzz.witness import life_of
from weft.sim.faults.in_flight import RECEIVED


def are_balanced(evidence: Evidence) -> Iterator[Violation]:
    """What a worker keeps is all that it was given to say, less what it said once and somebody heard."""
    messages = evidence.messages
    sent = {(message.event.kind, id(message.payload)) for message in messages}
    heard = {(message.event.kind, id(message.payload)) for message in messages if message.fate is RECEIVED}
    for worker in evidence.world.workers:
        store = evidence.simulation.nodes[worker].store
        if evidence.is_lost(worker) or not isinstance(store, AccountingStore):
            continue
        for (slot, bucket), account in store.accounts.items():
            kept, owed = store.lend(Buffer(slot, bucket)), _owed(account, sent - heard)
            wrong = np.abs(kept - owed)
            if wrong.max() > ROUNDING * max(1.0, float(np.abs(owed).max())):
                place = int(wrong.argmax())
                yield Violation(
                    6,
                    f"worker {worker} keeps {kept[place]:.6g} of {evidence.scenario.book.name(place)} in bucket "
                    f"{bucket} of '{slot}', but has yet to say {owed[place]:.6g}",
                )
                return


def _owed(account: Account, unheard: set[tuple[str, int]]) -> Array:
    """What must be left. Contributions that were sent but reached nobody are to be said again, whole.

    Those to a reduction, which is spoken in messages of other kinds, count when it ends: even of one worker alone.
    """
    owed = account.moved.copy()
    for (kind, _), parts in account.contributions.items():
        is_heard = not all((kind, id(said.payload)) in unheard for said in parts.values())
        for part, said in parts.items():
            start, stop = (0, len(owed)) if part is None else part.bounds(len(owed))
            owed[start:stop] += said.given - said.said if is_heard else said.given
    return owed


def are_applied_or_kept(evidence: Evidence, accrued: str | None = None, may_drop: bool = False) -> Iterator[Violation]:
    """Each gradient of a worker that was not lost counts in the end, or that worker still keeps it: never both.

    It may be neither if the strategy drops what is late, or a moved server lost it. What stands in `accrued` was not
    sent yet. Only for codecs that say numbers as they are; where nothing is coded, nothing is kept.
    """
    if evidence.scenario.compress is None:
        return
    world, book = evidence.world, evidence.scenario.book
    may_drop = may_drop or bool(evidence.moved)
    for bucket in world.trainable:
        applied = np.abs(evidence.final(_holder(evidence, bucket))[bucket]) > ROUNDING
        for worker in world.workers:
            if evidence.is_lost(worker):
                continue
            life = life_of(evidence.simulation.nodes[worker])
            kept = _kept(evidence, worker, bucket, accrued)
            for step in evidence.steps:
                if step.life != life or not step.samples or (worker, step.step) in evidence.not_finite:
                    continue
                for place in range(*book.places(life, step.step).indices(book.num_elements)):
                    is_whole = abs(kept[place] - (not applied[place])) < ROUNDING
                    is_dropped = may_drop and not applied[place] and abs(kept[place]) < ROUNDING
                    if not is_whole and not is_dropped:
                        counts = "counts" if applied[place] else "does not count"
                        yield Violation(
                            6,
                            f"{book.name(place)} {counts} in bucket {bucket}, and worker {worker} keeps "
                            f"{kept[place]:.6g} of it",
                        )
                        return


def _holder(evidence: Evidence, bucket: int) -> NodeId:
    """Who holds what counts: the server of a bucket, or the worker that made the last step."""
    if evidence.world.servers:
        return evidence.world.server_of(bucket)
    steps = [step for step in evidence.steps if step.life not in evidence.lost]
    return max(steps, key=lambda step: step.step).worker


def _kept(evidence: Evidence, worker: NodeId, bucket: int, accrued: str | None) -> Array:
    slots = [slot.name for slot in evidence.recipe.slots(evidence.world.role(worker), evidence.world)]
    kept: Array = np.zeros(evidence.scenario.book.num_elements)
    for slot in slots:
        if keeps(slot) or slot == accrued:
            kept += evidence.slot(worker, Buffer(slot, bucket))
    return kept
