"""The ghost store: sizes only. Peers run over it by the thousand, without any maths."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weft.codecs.codec import Codec
from weft.core.actions import Apply, Combine, Encode
from weft.core.errors import IllegalAction
from weft.core.names import GRADIENT, INBOX, PARAMS, Bucket, Buffer
from weft.core.strategy import Strategy
from weft.observe.records.left_out import LeftOut
from weft.store.coded import shape_of
from weft.store.store import Payload, undeclared


class GhostCoded(NamedTuple):
    """A coded tensor without its bytes."""

    codec: Codec
    nbytes: int


class GhostStore:
    """Knows which buffers exist and how large they are; holds nothing."""

    def __init__(
        self, buckets: Sequence[Bucket], slots: Iterable[str], codecs: Mapping[str, Any] | None = None
    ) -> None:
        self._buckets = buckets
        self._slots = dict.fromkeys((PARAMS, GRADIENT, INBOX, *slots))
        self._sizes: dict[Buffer, int] = {}
        self._codecs: Mapping[str, Codec] = codecs or {}
        self._coded: dict[Buffer, GhostCoded] = {}
        self._inbox: GhostCoded | None = None

    def num_bytes(self, buffer: Buffer) -> int:
        coded = self._operand(buffer)
        if coded is not None:
            return coded.nbytes
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

    def _operand(self, buffer: Buffer) -> GhostCoded | None:
        return self._inbox if buffer.slot == INBOX else self._coded.get(buffer)

    def capture(self, buffer: Buffer) -> Payload:
        return self._operand(buffer) if self._codecs else None

    def give_params(self) -> None:
        pass

    def look_for_writes(self) -> None:
        pass

    def refuse_writes(self) -> None:
        pass

    def forget_captured(self) -> None:
        pass

    def write(self, buffer: Buffer, payload: Payload) -> None:
        self._coded.pop(buffer, None)
        self.num_bytes(buffer)

    def receive(self, body: Buffer | None, payload: Payload, hyper: Any) -> None:
        self._inbox = payload

    def combine(self, action: Combine) -> None:
        into = action.into
        if into.slot not in self._slots:
            raise IllegalAction(undeclared(into, self._slots))
        if self._codecs:
            added, here = None if action.add is None else self._operand(action.add), self._coded.pop(into, None)
            is_copy = action.keep == 0.0 and added is not None and (action.scale == 1.0 or added.codec.adds_up)
            if is_copy and into.slot not in (PARAMS, GRADIENT):
                assert added is not None
                self._coded[into] = added
            elif here is not None and here.codec.adds_up and (action.add is None or (added and action.keep)):
                self._coded[into] = here

    def encode(self, action: Encode) -> None:
        for buffer in (action.into, action.source, action.residual, action.given):
            if buffer is not None:
                self._check(buffer)
        codec = self._codecs[action.kind]
        shape = shape_of(self._buckets[action.into.bucket], action.into.part)
        self._coded[action.into] = GhostCoded(codec, shape.size(codec, action.clock))

    def apply(self, actions: Sequence[Apply]) -> None:
        for action in actions:
            self._check(action.gradient)

    def guard(self, rank: int, num_workers: int, strategy: Strategy, tell: Callable[[LeftOut], None]) -> None:
        return None

    def hyper(self) -> Any:
        return None

    def reduce(self, payloads: Sequence[Payload], weights: Sequence[float], op: str) -> Payload:
        return None
