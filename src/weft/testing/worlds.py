"""Small simulated worlds with real arrays: a strategy, a gradient as a function, everything kept to look at."""

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.adapters.array_replica import ArrayReplica
from weft.core.names import PARAMS, Bucket
from weft.core.peer import Peer
from weft.core.recorder import Recording
from weft.core.rules import SGD, Rule
from weft.core.seat import ReplicaMemory
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.cost.links import Link
from weft.sim.compute import ComputeTime, PerSample
from weft.sim.facts import Facts
from weft.sim.network import HostLinks, Network
from weft.sim.program import BackwardDone, PortionWanted, ReportDone, Request, StepDone
from weft.sim.reports import ModelReports
from weft.sim.simulation import Simulation
from weft.store.building import build_store
from weft.store.numpy import NumpyStore
from weft.store.preparing import ready_codecs

Array = NDArray[Any]
Arrays = Array | Mapping[str, Array]
"""One array, or several by name; each type of number makes a bucket of its own (float32 comes first)."""
Gradient = Callable[[int, int, Any], Any]
"""(worker, step, parameters) -> gradient, both shaped as the worker's start."""
Script = Callable[[int, ArrayReplica], Generator[Request, None, None]]

BETWEEN = Link(1e-3, 1e6)
WITHIN = Link(1e-5, 1e9)


@dataclass
class Ran:
    """A world that was run: what every node holds, and what was seen on the way."""

    params: list[list[Array]]
    """The parameters at the end, by node and bucket."""
    members: list[list[Array]]
    """The models that the result is made of, by bucket: one, or all of an ensemble."""
    facts: Facts
    recording: Recording
    world: World
    simulation: Simulation

    @property
    def result(self) -> list[Array]:
        """The result model, by bucket."""
        (model,) = self.members
        return model

    def peer(self, node: int) -> Any:
        peer: Peer = self.simulation.nodes[node].peer
        return peer


class ArrayProgram:
    """A script as a generator of requests; a callable that it reports runs without worker environment."""

    def __init__(self, requests: Generator[Request, None, None]) -> None:
        self._requests = requests

    def resume(self) -> Request | None:
        return next(self._requests, None)

    def evaluate(self, function: Callable[[], Any]) -> float:
        return float(function())


def pull(*targets: Any) -> Gradient:
    """The gradient of |w - target|² / 2, where worker i has target i."""
    return lambda worker, step, w: w - np.asarray(targets[worker], dtype=np.float64)


def training(
    gradient: Gradient,
    num_steps: int,
    samples: float | Sequence[float] = 1.0,
    loss: Callable[[int, int, Any], float] | None = None,
    epoch_steps: int | None = None,
    report: Callable[[int, int, Any], Mapping[str, Any]] | None = None,
    first_step: int = 0,
) -> Script:
    """A script of backward and step; reports `report(worker, epoch, parameters)` every `epoch_steps` steps."""

    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        mine = samples[rank] if isinstance(samples, Sequence) else samples
        views: Any = replica.views()
        alone = set(views) == {"w"}
        told = views["w"] if alone else views
        for step in range(first_step, num_steps):
            lost = None if loss is None else float(loss(rank, step, told))
            given = gradient(rank, step, told)
            replica.take({"w": given} if alone else given)
            yield from tuned(replica, BackwardDone(mine))
            yield from tuned(replica, StepDone(mine, lost))
            if epoch_steps and (step + 1) % epoch_steps == 0:
                epoch = step // epoch_steps
                yield from tuned(replica, ReportDone(epoch, {} if report is None else report(rank, epoch, told)))

    return script


def taking(gradient: Callable[[int, Any], Any], portion_samples: Sequence[float], num_epochs: int) -> Script:
    """A script whose shares take portions as they are handed out, `gradient(portion, parameters)` of each; it
    reports after every share."""

    def script(rank: int, replica: ArrayReplica) -> Generator[Request, None, None]:
        views: Any = replica.views()
        alone = set(views) == {"w"}
        for epoch in range(num_epochs):
            while True:
                wanted = PortionWanted(epoch, len(portion_samples))
                yield wanted
                if wanted.portion is None:
                    break
                given = gradient(wanted.portion, views["w"] if alone else views)
                replica.take({"w": given} if alone else given)
                yield BackwardDone(portion_samples[wanted.portion])
                yield StepDone(portion_samples[wanted.portion], None)
            yield ReportDone(epoch, {})

    return script


def tuned(replica: ArrayReplica, request: Request) -> Generator[Request, None, None]:
    """A request, around which hyper-parameters are exchanged as a worker does."""
    if replica.tuning is not None:
        replica.tuning.give()
    yield request
    if replica.tuning is not None:
        replica.tuning.take()


def _beside(first: ArrayReplica, buckets: Sequence[Bucket]) -> ReplicaMemory:
    """The first replica's memory, and gradients of one's own."""
    gradient = [np.zeros(kind.num_elements, f"f{kind.itemsize}") for kind in buckets]
    return ReplicaMemory([first.array(PARAMS, b) for b in range(len(buckets))], gradient, gradient)


def simulate_arrays(
    strategy: Strategy,
    num_workers: int,
    gradient: Gradient | None = None,
    *,
    num_steps: int = 1,
    samples: float | Sequence[float] = 1.0,
    starts: Sequence[Arrays] | None = None,
    rule: Rule | Sequence[Rule] | None = None,
    script: Script | None = None,
    network: Network | None = None,
    compute: ComputeTime | None = None,
    hosts: Sequence[int] | None = None,
    seed: int = 0,
    recorder: Recording | None = None,
    tunes: Mapping[str, tuple[float, float]] | None = None,
    **training_options: Any,
) -> Ran:
    """Run `num_steps` of every worker, each on a host of its own; a worker starts from its own of `starts`.

    The usual gradient draws worker i to i; `samples` and `rule` are one, or one for each worker. Servers
    start from worker 0's parameters. A strategy that tunes may change the learning rate, or what `tunes` says.
    `script` stands in for the usual loop; `training_options` are those of `training`.
    """
    script = script or training(gradient or pull(*range(num_workers)), num_steps, samples, **training_options)
    given = [np.zeros(1)] * num_workers if starts is None else starts
    named = [start if isinstance(start, Mapping) else {"w": np.asarray(start, np.float64)} for start in given]
    rule = SGD(lr=0.1) if rule is None else rule
    rules = rule if isinstance(rule, Sequence) else [rule] * num_workers
    replicas = [ArrayReplica(arrays, copy(mine), None) for arrays, mine in zip(named, rules, strict=True)]
    for replica in replicas if strategy.tunes else ():
        replica.tune({"lr": (1e-3, 1.0)} if tunes is None else tunes)
        replica.share_tuned()
    for replica in replicas[1:] if strategy.shares_replica else ():
        replica.settle(allocate=partial(_beside, replicas[0]))
    roles = strategy.roles(num_workers)
    hosts = tuple(i % num_workers for i in range(sum(roles))) if hosts is None else tuple(hosts)
    world = World(roles, replicas[0].buckets, strategy.graph(num_workers), hosts)
    programs = [ArrayProgram(script(rank, replica)) for rank, replica in enumerate(replicas)]
    codecs = ready_codecs(strategy, replicas)
    replicas += [replicas[0].twin() for _ in world.servers]
    stores = [
        build_store(NumpyStore, strategy, world, node, replica, codecs=codecs, seed=seed)
        for node, replica in enumerate(replicas)
    ]
    network = network or HostLinks(hosts, [BETWEEN] * (max(hosts) + 1), WITHIN)
    compute = compute or PerSample([1e-2] * num_workers)
    reports = ModelReports(programs, replicas, strategy, world, stores[0].lend)
    recorder = recorder or Recording()
    simulation = Simulation(strategy, world, stores, programs, network, compute, reports, seed, recorder)
    facts = simulation.run()
    params = [[replica.array(PARAMS, b).copy() for b in range(len(world.buckets))] for replica in replicas]
    return Ran(params, list(reports.result.models().values()), facts, recorder, world, simulation)
