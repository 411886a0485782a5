"""Which tensors of a store are coded at present. Parts of a bucket may be, and are settled when the whole is wanted."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from weft.core.names import Buffer, Part
from weft.store.coded import Coded, Meter

Array = NDArray[Any]
Parts = dict[Part | None, Coded]


class CodedSlots:
    """Coded tensors by their names; `memory` is where an array of one would be."""

    def __init__(self, memory: Callable[[Buffer], Array], meter: Meter) -> None:
        self._memory = memory
        self._meter = meter
        self._parts: dict[tuple[str, int], Parts] = {}
        self._given: dict[Buffer, Any] = {}
        """What was given when a buffer was encoded: without it, what comes for it cannot be read."""

    def get(self, buffer: Buffer) -> Coded | None:
        """The tensor of exactly this name, if it is coded."""
        parts = self._parts.get((buffer.slot, buffer.bucket))
        return None if parts is None else parts.get(buffer.part)

    def put(self, buffer: Buffer, coded: Coded) -> None:
        """Let a tensor be this."""
        self.drop(buffer)
        if coded.given is not None:
            self._given[buffer] = coded.given
        elif buffer in self._given:
            coded = coded.with_given(self._given[buffer])
        self._parts.setdefault((buffer.slot, buffer.bucket), {})[buffer.part] = coded

    def drop(self, buffer: Buffer) -> None:
        """The tensor is about to be overwritten."""
        parts = self._parts.get((buffer.slot, buffer.bucket))
        if parts is None:
            return
        if buffer.part is None:
            parts.clear()
        parts.pop(buffer.part, None)
        self.settle(buffer)

    def settle(self, buffer: Buffer) -> None:
        """Let everything that this name covers be an array."""
        key = buffer.slot, buffer.bucket
        parts = self._parts.get(key)
        if parts is None:
            return
        for part in [part for part in parts if _overlap(part, buffer.part)]:
            coded = parts.pop(part)
            coded.add_to(self._memory(Buffer(*key, part)), 0.0, 1.0, self._meter)
        if not parts:
            del self._parts[key]


def _overlap(one: Part | None, other: Part | None) -> bool:
    """Parts of equally many pieces are apart unless they are the same; for others nobody looks closely."""
    return one is None or other is None or one.of != other.of or one == other
