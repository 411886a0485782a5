"""The network in virtual time: when a message arrives. Channels are FIFO per (source, target)."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Protocol

from weft.core.names import NodeId
from weft.cost.links import Link
from weft.sim.kernel import NS_PER_S, to_ns

Levels = Sequence[tuple[int, Link]]
"""How many take part in a step, and over which link."""


class Network(Protocol):
    """Says when messages arrive, and what a native collective may count on."""

    def send(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> tuple[int, bool]:
        """Send a message now: (when it has arrived, True), or (when it could have arrived, False).

        In the second case `come_in` must be asked at that time: others may have come in before it.
        """
        ...

    def come_in(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> int:
        """When a message has arrived that could have arrived now."""
        ...

    def levels(self, group: Sequence[NodeId]) -> Levels:
        """In which steps a group natively reduces, one after another: within hosts, then between them."""
        ...


class HostLinks:
    """Every host has one full-duplex link to all others, shared by its nodes; inside, nodes have their own.

    A message leaves when its sender's side is free, and comes in when the receiver's side is free, first
    come first served on both; on idle links it takes L + mG. `between` gives each host its own link; a
    message between two hosts has the longer latency and the lower bandwidth of both.
    """

    def __init__(self, hosts: Sequence[int], between: Sequence[Link], within: Link) -> None:
        self._hosts = hosts
        self._between = between
        self._within = within
        self._out_free_ns = [0] * (len(between) + len(hosts))
        self._in_free_ns = [0] * (len(between) + len(hosts))
        self._num_coming = [0] * len(self._in_free_ns)
        """Messages that left their sender late and have not come in."""
        self._ports: list[dict[NodeId, tuple[int, int, int, float]]] = [{} for _ in hosts]

    def link(self, source: NodeId, target: NodeId) -> Link:
        a, b = self._hosts[source], self._hosts[target]
        if a == b:
            return self._within
        one, other = self._between[a], self._between[b]
        return Link(max(one.latency_s, other.latency_s), min(one.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s))

    def _port(self, source: NodeId, target: NodeId) -> tuple[int, int, int, float]:
        link = self.link(source, target)
        a, b = self._hosts[source], self._hosts[target]
        if a == b:
            a, b = len(self._between) + source, len(self._between) + target
        return a, b, to_ns(link.latency_s), NS_PER_S / link.bandwidth_bytes_per_s

    def send(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> tuple[int, bool]:
        ports = self._ports[source]
        port = ports.get(target)
        if port is None:
            port = ports[target] = self._port(source, target)
        out, into, latency_ns, ns_per_byte = port
        duration_ns = round(num_bytes * ns_per_byte)
        start_ns = self._out_free_ns[out]
        if start_ns > now_ns or self._num_coming[into]:
            if start_ns < now_ns:
                start_ns = now_ns
            self._out_free_ns[out] = start_ns + duration_ns
            self._num_coming[into] += 1
            return start_ns + latency_ns + duration_ns, False
        self._out_free_ns[out] = now_ns + duration_ns
        comes_ns = now_ns + latency_ns
        if comes_ns < self._in_free_ns[into]:
            comes_ns = self._in_free_ns[into]
        self._in_free_ns[into] = end_ns = comes_ns + duration_ns
        return end_ns, True

    def come_in(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> int:
        _, into, _, ns_per_byte = self._ports[source][target]
        self._num_coming[into] -= 1
        end_ns = max(now_ns, self._in_free_ns[into] + round(num_bytes * ns_per_byte))
        self._in_free_ns[into] = end_ns
        return end_ns

    def levels(self, group: Sequence[NodeId]) -> Levels:
        """The host with the most members holds the others up within hosts, the slowest link between them."""
        used = Counter(self._hosts[node] for node in group)
        within = max(used.values()), self._within
        if len(used) == 1:
            return [within]
        links = [self._between[host] for host in used]
        worst = Link(max(link.latency_s for link in links), min(link.bandwidth_bytes_per_s for link in links))
        return [within, (len(used), worst)]


class RandomDelays:
    """Delays drawn log-uniformly over decades, for property tests; FIFO is kept, nothing else."""

    def __init__(self, rng: Random, least_s: float = 1e-5, most_s: float = 1e-1) -> None:
        self._rng = rng
        self._least_s = least_s
        self._ratio = most_s / least_s
        self._last_ns: dict[tuple[NodeId, NodeId], int] = {}

    def send(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> tuple[int, bool]:
        delay_ns = to_ns(self._least_s * self._ratio ** self._rng.random())
        arrival_ns = max(now_ns + delay_ns, self._last_ns.get((source, target), 0))
        self._last_ns[source, target] = arrival_ns
        return arrival_ns, True

    def come_in(self, source: NodeId, target: NodeId, num_bytes: int, now_ns: int) -> int:
        return now_ns

    def levels(self, group: Sequence[NodeId]) -> Levels:
        return [(len(group), Link(self._least_s * self._ratio ** self._rng.random(), 1e9))]
