"""Iterations in virtual time: when their gradients are ready, bucket by bucket."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.events import GradientReady
from weft.core.names import NodeId
from weft.core.world import World
from weft.sim.compute import ready_shares
from weft.sim.cores import Cores
from weft.sim.facts import Facts
from weft.sim.kernel import NS_PER_S, Kernel, to_ns
from weft.sim.node import SimulatedNode

Fill = Callable[[SimulatedNode, GradientReady, bool], None]
"""Tells a node that a bucket is ready, and whether it is the last."""


class Iterations:
    """Lets time pass for iterations: on cores that workers share if there are such, else as if each had its own.

    A worker that is so many times slower (`stretch`, empty: nobody is) uses its core as long as the others and sleeps
    for the rest, then has all of its gradient at once: that is what `--slow` does to a real worker. Where each has a
    core of its own nobody sleeps: there the seconds of a slower worker are more.
    """

    def __init__(
        self,
        kernel: Kernel,
        facts: Facts,
        world: World,
        fill: Fill,
        is_gone: Callable[[SimulatedNode], bool],
        num_cores: int | None = None,
        stretch: Sequence[float] = (),
    ) -> None:
        self._kernel = kernel
        self._facts = facts
        shares = ready_shares([world.buckets[b].num_elements for b in world.trainable])
        self._ready = [(b, share * NS_PER_S) for b, share in zip(world.trainable, shares, strict=True)]
        """When each bucket is ready: the share of the iteration's time, in nanoseconds per second."""
        self._last = self._ready[-1][0]
        self._fill = fill
        self._is_gone = is_gone
        self._cores = None if num_cores is None else Cores(kernel, world.hosts, num_cores)
        self._stretch = stretch or (1.0,) * world.num_workers

    def begin(self, node: SimulatedNode, seconds: float, samples: float) -> None:
        """An iteration of so many seconds begins now, or when its node has finished coding."""
        kernel = self._kernel
        if node.gate is not None:
            node.gate.begin()
        now_ns = max(kernel.now_ns, node.busy_ns)
        if self._cores is not None:
            kernel.at(now_ns, self._run, (node, seconds, samples, now_ns, 0))
            return
        self._facts.compute_s[node.id] += seconds
        for bucket, share_ns in self._ready:
            event = GradientReady(node.step, bucket, samples)
            kernel.at(now_ns + round(seconds * share_ns), self._fill, (node, event, bucket == self._last))

    def drop(self, worker: NodeId) -> None:
        """A worker's process is dead: it uses no core any more."""
        if self._cores is not None:
            self._cores.drop(worker)

    def prepare(self, worker: NodeId, seconds: float, then: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Call then(*args) when a new process of a worker has had so many seconds of a core, before its first step."""
        if self._cores is not None:
            self._cores.run(worker, seconds * NS_PER_S, then, args)
        else:
            self._kernel.at(self._kernel.now_ns + to_ns(seconds), then, args)

    def _run(self, node: SimulatedNode, seconds: float, samples: float, began_ns: int, place: int) -> None:
        """Run an iteration on a core until its next bucket is ready; a stretched one, to its end."""
        assert self._cores is not None
        if self._is_gone(node):  # it died while it was coding
            return
        before = self._ready[place - 1][1] if place else 0.0
        is_stretched = self._stretch[node.id] > 1
        until = NS_PER_S if is_stretched else self._ready[place][1]
        then = self._sleep if is_stretched else self._go_on
        self._cores.run(node.id, seconds * (until - before), then, (node, seconds, samples, began_ns, place))

    def _go_on(self, node: SimulatedNode, seconds: float, samples: float, began_ns: int, place: int) -> None:
        bucket = self._ready[place][0]
        if bucket != self._last:
            self._run(node, seconds, samples, began_ns, place + 1)
        else:
            self._count(node, began_ns)
        self._fill(node, GradientReady(node.step, bucket, samples), bucket == self._last)

    def _sleep(self, node: SimulatedNode, seconds: float, samples: float, began_ns: int, place: int) -> None:
        rest_ns = round(seconds * (self._stretch[node.id] - 1) * NS_PER_S)
        self._kernel.at(self._kernel.now_ns + rest_ns, self._wake, (node, samples, began_ns))

    def _wake(self, node: SimulatedNode, samples: float, began_ns: int) -> None:
        self._count(node, began_ns)
        for bucket, _ in self._ready:
            self._fill(node, GradientReady(node.step, bucket, samples), bucket == self._last)

    def _count(self, node: SimulatedNode, began_ns: int) -> None:
        self._facts.compute_s[node.id] += (self._kernel.now_ns - began_ns) / NS_PER_S
