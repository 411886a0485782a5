"""Small worlds of puppets in which things go wrong."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from support.peers.puppets import Answer, Puppet, Puppets
from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import MEAN, Compute, Reduce, Send
from weft.core.events import Event, MembersChanged, Reduced, StepFinished
from weft.core.names import WELCOME, Role
from weft.core.recorder import Recording
from weft.core.world import World
from weft.cost.links import Link
from weft.sim.arbiter import View
from weft.sim.compute import PerSample
from weft.sim.faults.in_flight import FailableNode
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.plan import Fault, Faults, Slow
from weft.sim.network import HostLinks
from weft.sim.program import Request
from weft.sim.reports import NoReports
from weft.sim.simulation import Simulation
from weft.store.numpy import NumpyStore
from weft.store.store import Store
from weft.testing.worlds import ArrayProgram, Script, training

STEP_S = 0.1
LATENCY_S = 0.01
LINGER_S = 0.05
LATER = Slow(1, 0.75, 9.0, 3.0), Slow(2, 0.75, 9.0, 3.0)
"""Worker 0 is the first to end, so that nobody's end gets in the way of what it sends."""


@dataclass(frozen=True)
class FaultyRun:
    """A simulation that has run, and the parts in which things went wrong."""

    simulation: Simulation
    injection: FaultInjection
    recording: Recording

    @property
    def views(self) -> list[View]:
        return self.injection.membership.arbiter.views

    def node(self, id: int) -> FailableNode:
        """The last incarnation of a node."""
        return self.injection.liveness.node(id)

    def peer(self, id: int) -> Puppet:
        peer = self.node(id).peer
        assert isinstance(peer, Puppet)
        return peer

    def taken_over(self, id: int) -> list[float]:
        """What a newcomer was given of the one parameter that worlds of puppets have."""
        messages = self.injection.delivery.messages
        return [float(m.payload[0]) for m in messages if m.target == id and m.event.kind == WELCOME and m.event.body]

    def events(self, id: int, *kinds: type) -> list[Event]:
        return [event for _, event in self.peer(id)._seen if isinstance(event, kinds)]


class LateProgram(ArrayProgram):
    """The script of a newcomer, which is made when its first step is known."""

    def __init__(self, begin: Callable[[int], Generator[Request, None, None]]) -> None:
        self._begin = begin

    def begin_at(self, step: int) -> None:
        super().__init__(self._begin(step))


def run(
    answer: Answer,
    *schedule: Fault,
    num_workers: int = 3,
    num_servers: int = 0,
    num_steps: int = 10,
    gradient: Callable[[int, int, Any], Any] | None = None,
    script: Script | None = None,
    news_s: float = 0.001,
    in_step: bool = False,
    start_s: float = 0.0,
    rest_s: float = 0.0,
) -> FaultyRun:
    """A run of puppets whose steps take 0.1 s and whose messages take 0.01 s."""
    strategy = Puppets(answer, num_servers, in_step=in_step)
    roles = strategy.roles(num_workers)
    hosts = tuple(range(sum(roles)))
    replicas = [ArrayReplica({"w": np.ones(1)}, weft.SGD(lr=0.1), None) for _ in hosts]
    world = World(roles, replicas[0].buckets, None, hosts)
    script = script or training(gradient or (lambda worker, step, w: w), num_steps)
    programs = [ArrayProgram(script(rank, replicas[rank])) for rank in range(num_workers)]

    def store(node: int) -> Store:
        return NumpyStore(replicas[node], [], {}, is_server=world.role(node) is Role.SERVER)

    def newcomer(worker: int) -> tuple[Store, LateProgram]:
        replicas[worker] = ArrayReplica({"w": np.ones(1)}, weft.SGD(lr=0.1), None)
        pulls = gradient or (lambda worker, step, w: w)
        return store(worker), LateProgram(
            lambda step: training(pulls, num_steps, first_step=step)(worker, replicas[worker])
        )

    faults = Faults(tuple(schedule), 0.05, 0.5, LINGER_S, news_s, start_s, rest_s)
    injection, recording = FaultInjection(faults, store, newcomer), Recording()
    simulation = Simulation(
        strategy,
        world,
        [store(node) for node in hosts],
        programs,
        HostLinks(hosts, [Link(LATENCY_S, 1e12)] * len(hosts), Link(LATENCY_S, 1e12)),
        PerSample([STEP_S] * num_workers),
        NoReports(),
        recorder=recording,
        liveness=injection.make_liveness,
        delivery=injection.make_delivery,
    )
    simulation.run()
    return FaultyRun(simulation, injection, recording)


def say_step(to: int) -> Answer:
    """Worker 0 sends the number of each step to somebody."""

    def answer(peer: Puppet, event: Event) -> list[Any] | None:
        if isinstance(event, StepFinished) and peer.me == 0:
            return [Send(to, "word", event.step, 0), Compute(event.step + 1)]
        return None

    return answer


def quiet(peer: Puppet, event: Event) -> None:
    return None


def reducing(peer: Puppet, event: Event) -> list[Any] | None:
    """All reduce after every step; one that never happened is asked for again."""
    group = peer.workers
    if isinstance(event, StepFinished):
        peer.step = event.step + 1
        return [Reduce(group, "value", peer.step, peer.world.params[0], MEAN, 1.0)]
    if isinstance(event, MembersChanged) and peer.step > len(peer.seen(Reduced)):
        return [Reduce(group, "value", peer.step, peer.world.params[0], MEAN, 1.0)]
    return [Compute(peer.step)] if isinstance(event, Reduced) else None
