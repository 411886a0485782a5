"""Encoding and decoding in virtual time: a node that does it is busy, and what it sends leaves later."""

from typing import Any

from weft.core.actions import Encode
from weft.core.events import Received
from weft.core.names import Buffer
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.coding import CodingSpeed
from weft.sim.kernel import to_ns
from weft.sim.node import SimulatedNode


class CodingTime:
    """Keeps nodes busy while they encode and decode, one tensor after another."""

    def __init__(self, strategy: Strategy, world: World, speed: CodingSpeed) -> None:
        self._codecs = strategy.codecs()
        self._buckets = world.buckets
        self._speed = speed

    def encode(self, node: SimulatedNode, action: Encode, now_ns: int) -> None:
        self._keep_busy(node, self._speed.encode_s(self._codecs[action.kind], self._num_bytes(action.into)), now_ns)

    def decode(self, node: SimulatedNode, event: Received, payload: Any, now_ns: int) -> None:
        """A message came; one that is coded is decoded."""
        codec = getattr(payload, "codec", None)
        if codec is not None and event.body is not None:
            self._keep_busy(node, self._speed.decode_s(codec, self._num_bytes(event.body)), now_ns)

    @staticmethod
    def _keep_busy(node: SimulatedNode, seconds: float, now_ns: int) -> None:
        node.busy_ns = max(node.busy_ns, now_ns) + to_ns(seconds)

    def _num_bytes(self, buffer: Buffer) -> int:
        """The bytes of a tensor when it is not coded."""
        bucket = self._buckets[buffer.bucket]
        start, stop = buffer.part.bounds(bucket.num_elements) if buffer.part else (0, bucket.num_elements)
        return (stop - start) * bucket.itemsize
