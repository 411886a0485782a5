"""Runs a scenario and keeps the evidence."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

import numpy as np

from weft.core.errors import Deadlock
from weft.core.names import NodeId
from weft.core.rules import LBFGS, SGD, Rule
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.fuzz.accounts import AccountingStore
from weft.fuzz.evidence import Evidence
from weft.fuzz.ledger import Array, LedgerProgram, LedgerReplica
from weft.fuzz.scenario import Scenario
from weft.fuzz.witness import BoundedRecording, WitnessedSimulation
from weft.sim.compute import PerSample
from weft.sim.faults.injection import FaultInjection
from weft.sim.faults.plan import EarlyFinish, NonFiniteGradient
from weft.sim.kernel import to_ns
from weft.sim.network import RandomDelays
from weft.sim.program import ReportDone
from weft.sim.reports import NoReports
from weft.store.building import build_store
from weft.store.numpy import NumpyStore
from weft.store.preparing import ready_codecs
from weft.store.store import Store

DELAYS_S = (1e-4, 3e-2)


class LedgerReports(NoReports):
    """Scores that programs make up."""

    def own_numbers(self, worker: NodeId, request: ReportDone) -> dict[str, float]:
        return {name: float(value) for name, value in request.numbers.items() if not callable(value)}


def run(scenario: Scenario, recipe: Strategy | None = None) -> Evidence:
    """Run a scenario to its end, its error or its bound; `recipe` stands in for the strategy that it names."""
    recipe = scenario.recipe if recipe is None else recipe
    book, num_workers = scenario.book, scenario.num_workers
    roles = recipe.roles(num_workers)
    hosts = tuple(0 if recipe.shares_replica else node % num_workers for node in range(sum(roles)))
    world = World(roles, book.buckets, recipe.graph(num_workers), hosts)
    first = LedgerReplica(book)
    shared = first.params if recipe.shares_replica else None
    replicas = [first, *(LedgerReplica(book, params=shared) for _ in range(1, world.num_nodes))]
    programs = [_program(scenario, worker, replicas[worker]) for worker in world.workers]
    codecs = ready_codecs(recipe, replicas[:num_workers])  # type: ignore[arg-type]

    def store(node: NodeId, replica: LedgerReplica) -> Store:
        return build_store(
            AccountingStore if codecs else NumpyStore,
            recipe,
            world,
            node,
            replica,  # type: ignore[arg-type]
            codecs=codecs,
            seed=scenario.seed,
            rules=_linear(recipe.rules(world)),
        )

    recording = BoundedRecording()
    newcomers = Newcomers(scenario, programs, store, shared)
    empty = partial(LedgerReplica, book, is_empty=True)
    injection = FaultInjection(scenario.faults, lambda node: store(node, empty()), newcomers.make)
    simulation = WitnessedSimulation(
        recipe,
        world,
        [store(node, replica) for node, replica in enumerate(replicas)],
        programs,
        RandomDelays(Random(f"delays/{scenario.seed}"), *DELAYS_S),
        PerSample([0.0] * num_workers, sigma=0.3, seconds_per_step=scenario.step_s),
        LedgerReports(),
        scenario.seed,
        recording,
        liveness=injection.make_liveness,
        delivery=injection.make_delivery,
    )
    views, messages = injection.membership.arbiter.views, injection.delivery.messages
    evidence = Evidence(scenario, recipe, world, recording, simulation, views, messages)
    simulation.kernel.at(to_ns(scenario.bound_s), simulation.kernel.stop, ("its time was up",))
    try:
        with np.errstate(all="ignore"):
            simulation.run()
        if simulation.stuck():
            raise Deadlock(
                f"{simulation.kernel.now_s:.3f} s have passed, all faults are over, and workers have not ended.\n"
                + simulation.who_waits()
            )
    except Exception as error:  # whatever a peer raises is a finding
        evidence.error = error
    return evidence


class Newcomers:
    """Makes the stores and scripts of newcomers: the next life of a worker, or again one that never began."""

    def __init__(
        self,
        scenario: Scenario,
        programs: Sequence[LedgerProgram],
        store: Callable[[NodeId, LedgerReplica], Store],
        shared: Sequence[Array] | None,
    ) -> None:
        self._scenario, self._store, self._shared = scenario, store, shared
        self._programs = dict(enumerate(programs))

    def make(self, worker: NodeId) -> tuple[Store, LedgerProgram]:
        owners, first = self._scenario.owners, self._scenario.num_workers
        mine = [life for life in range(first, len(owners)) if owners[life] == worker]
        life = next(one for one in mine if one not in self._programs or not self._programs[one].has_begun)
        replica = LedgerReplica(self._scenario.book, params=self._shared)
        program = self._programs[life] = _program(self._scenario, life, replica)
        return self._store(worker, replica), program


def _linear(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """L-BFGS turns gradients into something that a ledger cannot read; here they are added as they are."""
    adds = SGD(0.0)
    adds.lr = -1.0
    return {name: adds if isinstance(rule, LBFGS) else rule for name, rule in rules.items()}


def _program(scenario: Scenario, life: int, replica: LedgerReplica) -> LedgerProgram:
    schedule, worker = scenario.faults.schedule, scenario.owners[life]
    ends = [fault.steps for fault in schedule if isinstance(fault, EarlyFinish) and fault.worker == worker]
    bad = frozenset(fault.step for fault in schedule if isinstance(fault, NonFiniteGradient) and fault.worker == worker)
    return LedgerProgram(
        life,
        replica,
        scenario.book,
        scenario.samples[life],
        scenario.epoch_steps,
        min([*ends, scenario.num_steps]),
        bad,
        scenario.seed,
        scenario.num_portions,
    )
