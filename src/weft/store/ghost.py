"""The ghost store: sizes only. Peers run over it by the thousand, without any maths."""

from collections.abc import Iterable, Sequence
from typing import Any

from weft.core.actions import Apply, Combine
from weft.core.errors import IllegalAction
from weft.core.names import GRADIENT, INBOX, PARAMS, Bucket, Buffer
from weft.store.store import Payload, undeclared


class GhostStore:
    """Knows which buffers exist and how large they are; holds nothing."""

    def __init__(self, buckets: Sequence[Bucket], slots: Iterable[str]) -> None:
        self._buckets = buckets
        self._slots = dict.fromkeys((PARAMS, GRADIENT, INBOX, *slots))
        self._sizes: dict[Buffer, int] = {}

    def num_bytes(self, buffer: Buffer) -> int:
        size = self._sizes.get(buffer)
        if size is None:
            self._check(buffer)
            num_elements, itemsize, *_ = self._buckets[buffer.bucket]
            if buffer.part is not None:
                start, stop = buffer.part.bounds(num_elements)
                num_elements = stop - start
            size = self._sizes[buffer] = num_elements * itemsize
        return size

    def _check(self, buffer: Buffer) -> None:
        if buffer.slot not in self._slots:
            raise IllegalAction(undeclared(buffer, self._slots))

    def capture(self, buffer: Buffer) -> Payload:
        return None

    def forget_captured(self) -> None:
        pass

    def write(self, buffer: Buffer, payload: Payload) -> None:
        self.num_bytes(buffer)

    def receive(self, body: Buffer | None, payload: Payload, hyper: Any) -> None:
        pass

    def combine(self, action: Combine) -> None:
        if action.into.slot not in self._slots:
            raise IllegalAction(undeclared(action.into, self._slots))

    def apply(self, actions: Sequence[Apply]) -> None:
        for action in actions:
            self._check(action.gradient)

    def is_finite(self, slot: str) -> bool:
        return True

    def hyper(self) -> Any:
        return None

    def reduce(self, payloads: Sequence[Payload], weights: Sequence[float], op: str) -> Payload:
        return None
