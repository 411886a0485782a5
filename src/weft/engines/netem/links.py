"""The links of an emulated network: computes when a packet that is sent now arrives, or that it is lost.

Each worker has a link to the switch in the middle and one back, each as fast as was asked for, with a queue before it.
A packet is stored and forwarded: its turn on the sender's link, then the delay, then its turn on the receiver's link.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from random import Random

from msgspec import Struct

QUEUE_S = 0.1
"""A queue holds what the link carries in this time; further packets are dropped, so that TCP adapts its rate."""
QUEUE_BYTES_MIN = 256 << 10
"""The least size of a queue: TCP begins with bursts of ten packets."""
CREDIT_S = 0.004
"""A link may catch up at most this much idle time, as if it had sent then: the relay may have had no core."""

Packet = bytes


class EmulatedLink(Struct, frozen=True):
    """One worker's link, up and down. Between two workers the longer delay and the greater loss count."""

    bytes_per_s: float
    delay_s: float
    loss: float


class Links:
    """Holds packets until they are due. The time is passed in, never read from a clock."""

    def __init__(self, lines: Sequence[EmulatedLink], seed: int = 0) -> None:
        self._byte_s = [1 / line.bytes_per_s for line in lines]
        self._delay_s = [line.delay_s for line in lines]
        self._loss = [line.loss for line in lines]
        self._queue_s = [max(QUEUE_S, QUEUE_BYTES_MIN / line.bytes_per_s) for line in lines]
        self._rng = Random(seed)
        self._up_free_s = [0.0] * len(lines)
        self._down_free_s = [0.0] * len(lines)
        self._number = 0
        self._under_way: list[tuple[float, int, bool, int, Packet]] = []
        """A heap of (time, number, whether it is past the switch, target, packet)."""
        self.num_bytes = self.num_packets = self.num_lost = self.num_dropped = 0

    def send(self, source: int, target: int, packet: Packet, now_s: float) -> None:
        """Take a packet that worker `source` has sent to `target`; it may be lost, or dropped by a full queue."""
        loss = max(self._loss[source], self._loss[target])
        if loss and self._rng.random() < loss:
            self.num_lost += 1
            return
        begin_s = max(self._up_free_s[source], now_s - CREDIT_S)
        if begin_s - now_s > self._queue_s[source]:
            self.num_dropped += 1
            return
        self._up_free_s[source] = done_s = begin_s + len(packet) * self._byte_s[source]
        delay_s = max(self._delay_s[source], self._delay_s[target])
        self._push(max(done_s, now_s) + delay_s, False, target, packet)

    def due(self, now_s: float) -> Iterator[tuple[int, Packet]]:
        """The packets that have arrived by `now_s`, in order, each with its target."""
        while self._under_way and self._under_way[0][0] <= now_s:
            at_s, _, is_through, target, packet = heappop(self._under_way)
            if is_through:
                self.num_packets += 1
                self.num_bytes += len(packet)
                yield target, packet
                continue
            begin_s = max(self._down_free_s[target], at_s)
            if begin_s - at_s > self._queue_s[target]:
                self.num_dropped += 1
                continue
            self._down_free_s[target] = done_s = begin_s + len(packet) * self._byte_s[target]
            self._push(done_s, True, target, packet)

    @property
    def next_s(self) -> float | None:
        """When the next packet reaches the switch or its receiver; None if none is under way."""
        return self._under_way[0][0] if self._under_way else None

    def _push(self, at_s: float, is_through: bool, target: int, packet: Packet) -> None:
        self._number += 1
        heappush(self._under_way, (at_s, self._number, is_through, target, packet))
