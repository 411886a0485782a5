"""A store that keeps accounts: what codecs were given to say, what they said, and what is left between residuals."""

from typing import Any, NamedTuple

import numpy as np

from weft.codecs.powersgd import Factor
from weft.core.actions import Combine, Encode
from weft.core.names import Buffer, Part
from weft.fuzz.ledger import Array
from weft.store.coded import Coded
from weft.store.numpy import NumpyStore

KEPT = ("residual", "rest")
"""How slots are called that keep what codecs leave out."""


def keeps(slot: str) -> bool:
    """A slot is one of those."""
    return slot.endswith(KEPT)


class EncodedContribution(NamedTuple):
    """What a codec was given of a contribution, or of a part of one, besides its residual, and what it said."""

    given: Array
    said: Array
    payload: Coded
    """That very object is what travels, however often it is sent."""


class Account:
    """One residual of a bucket: what went through it."""

    def __init__(self, num_elements: int) -> None:
        self.contributions: dict[tuple[str, int], dict[Part | None, EncodedContribution]] = {}
        """By kind and clock, as they were encoded last."""
        self.moved: Array = np.zeros(num_elements)
        """What came from other residuals of this node, less what went to them."""

    def encode(self, kind: str, clock: int, part: Part | None, said: EncodedContribution) -> None:
        """A contribution is encoded; for the second time, if it is the same part, or cut in others."""
        parts = self.contributions.setdefault((kind, clock), {})
        if part in parts or any(_of(other) != _of(part) for other in parts):
            parts.clear()
        parts[part] = said


def _of(part: Part | None) -> int:
    return 1 if part is None else part.of


class AccountingStore(NumpyStore):
    """Notes what every Encode that has a residual does, and what goes from one residual to another.

    A factor says nothing alone: what PowerSGD keeps is on no account.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.accounts: dict[tuple[str, int], Account] = {}
        """By slot and bucket."""

    def account(self, slot: str, bucket: int) -> Account:
        return self.accounts.setdefault((slot, bucket), Account(self.replica.buckets[bucket].num_elements))

    def encode(self, action: Encode) -> None:
        if action.residual is None or isinstance(self._codecs.get(action.kind), Factor):
            super().encode(action)
            return
        given = self.lend(action.source).copy()
        super().encode(action)
        coded = self.operand(action.into)
        assert isinstance(coded, Coded)
        account = self.account(action.residual.slot, action.residual.bucket)
        account.encode(
            action.kind,
            action.clock,
            action.residual.part,
            EncodedContribution(given, coded.decoded(self.meter), coded),
        )

    def combine(self, action: Combine) -> None:
        source, into = action.add, action.into
        if source is not None and keeps(source.slot) and keeps(into.slot):
            moved = self.lend(source).copy()
            self._move(into, action.scale * moved)
            self._move(source, -moved)
        super().combine(action)

    def _move(self, buffer: Buffer, amount: Array) -> None:
        moved = self.account(buffer.slot, buffer.bucket).moved
        start, stop = (0, len(moved)) if buffer.part is None else buffer.part.bounds(len(moved))
        moved[start:stop] += amount
