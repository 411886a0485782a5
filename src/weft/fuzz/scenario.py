"""A scenario: one world, one strategy and what goes wrong, all drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from random import Random

from weft.config.compression import Compression, codec, compressed
from weft.config.registry import COLLECTIVES, STRATEGIES, spelled
from weft.config.registry import strategy as strategy_of
from weft.core.errors import ConfigError
from weft.core.names import NodeId
from weft.core.strategy import Strategy
from weft.fuzz.coding import WIDTH, draw_coding
from weft.fuzz.ledger import Book
from weft.sim.faults.plan import (
    JOINS,
    KINDS,
    Crash,
    Duplicates,
    EarlyFinish,
    Fault,
    Faults,
    Join,
    Loss,
    NonFiniteGradient,
    Partition,
    Pause,
    Rejoin,
    Skew,
    Slow,
    Spike,
)

NOTICE_S, FENCE_S, LINGER_S, NEWS_S = 0.02, 0.5, 0.1, 0.01
STEP_S = (0.004, 0.04)
"""The fastest and the slowest iteration that a scenario draws."""


@dataclass(frozen=True)
class Scenario:
    """Everything that decides a run; the same scenario gives the same trace."""

    seed: int
    strategy: str
    collective: str | None
    num_workers: int
    num_steps: int
    epoch_steps: int
    num_trained: int
    has_state: bool
    samples: tuple[tuple[float, ...], ...]
    """Of each life's steps."""
    step_s: tuple[float, ...]
    faults: Faults
    compress: str | None = None
    scheme: str | None = None
    """By which scheme what is coded is reduced."""

    @cached_property
    def owners(self) -> tuple[NodeId, ...]:
        """The worker whose life each is: the workers' first ones, then those of newcomers."""
        joins = [fault.worker for fault in self.faults.schedule if isinstance(fault, JOINS)]
        return (*range(self.num_workers), *joins)

    @cached_property
    def book(self) -> Book:
        width = 1 if self.compress is None else WIDTH
        return Book(self.owners, self.num_steps, self.num_trained, self.has_state, self.recipe.tunes, width)

    @property
    def num_portions(self) -> int | None:
        """Of a share whose portions are handed out; some scripts share nothing, and bring batches of their own."""
        shares = Random(f"shares/{self.seed}").random() < 0.7
        return self.epoch_steps if shares and self.recipe.deals_portions else None

    @property
    def recipe(self) -> Strategy:
        if self.compress is None:
            return strategy_of(self.strategy, self.collective)
        compression = Compression(codec(self.compress), self.scheme)
        return compressed(strategy_of(self.strategy), compression, self.collective)

    @property
    def bound_s(self) -> float:
        """When the run must have ended: its faults are over and every step has had ten times its time."""
        slowest = max([fault.factor for fault in self.faults.schedule if isinstance(fault, Slow)], default=1.0)
        return 1.0 + self.faults.over_s + 10 * self.num_steps * max(self.step_s) * slowest


def draw(seed: int, names: Sequence[str] = tuple(STRATEGIES)) -> Scenario:
    """The scenario of a seed; strategies take turns."""
    rng = Random(f"scenario/{seed}")
    name = names[seed % len(names)]
    while True:
        num_workers = rng.randint(2, 7)
        text = example(name, rng)
        try:
            recipe = strategy_of(text)
            recipe.graph(num_workers)
            recipe.roles(num_workers)
            break
        except ConfigError:
            continue  # this topology has no such number of places
    num_steps = rng.randint(150, 300) // num_workers
    step_s = tuple(_between(rng, *STEP_S) for _ in range(num_workers))
    num_nodes = sum(recipe.roles(num_workers))
    length_s = num_steps * sum(step_s) / num_workers
    collective = rng.choice([None, *COLLECTIVES]) if name in STRATEGIES and STRATEGIES[name]().reduces else None
    coding = draw_coding(seed, recipe, collective)
    epoch_steps, num_trained, has_state = rng.randint(3, 8), rng.randint(1, 3), rng.random() < 0.5
    samples = tuple(_samples(seed, worker, rng.randint(1, 4), num_steps) for worker in range(num_workers))
    faults = _faults(rng, num_workers, num_nodes, num_steps, length_s)
    if recipe.welcomes:
        faults += _joins(Random(f"joins/{seed}"), faults, num_workers, length_s)
    samples += tuple(_samples(seed, num_workers + i, 2, num_steps) for i in range(len(faults)))
    return Scenario(
        seed,
        text,
        coding.collective,
        num_workers,
        num_steps,
        epoch_steps,
        num_trained,
        has_state,
        samples,
        step_s,
        Faults(tuple(faults), NOTICE_S, FENCE_S, LINGER_S, NEWS_S),
        coding.compress,
        coding.scheme,
    )


def example(name: str, rng: Random) -> str:
    """A strategy with the example parameters that it declares; one that is named with parameters has those."""
    drawn = STRATEGIES[name].example_parameters(rng) if name in STRATEGIES else {}
    told = ", ".join(f"{parameter}={spelled(value)}" for parameter, value in drawn.items())
    return f"{name}({told})" if told else name


def _between(rng: Random, low: float, high: float) -> float:
    """Log-uniform."""
    return round(exp(rng.uniform(log(low), log(high))), 6)


def _faults(rng: Random, num_workers: int, num_nodes: int, num_steps: int, length_s: float) -> list[Fault]:
    """Some faults, none in one of ten runs. At least one process is never lost, so that somebody can go on."""
    faults: list[Fault] = []
    mortal = list(range(num_workers))
    mortal.remove(rng.randrange(num_workers))
    num_faults = 0 if rng.random() < 0.1 else rng.randint(2, 5)
    for kind in rng.sample(KINDS, num_faults):
        at_s = round(rng.uniform(0.0, length_s), 6)
        duration_s = _between(rng, 0.01, 2 * FENCE_S)
        if kind in (Crash, Pause, Partition) and not mortal:
            kind = Spike
        if kind in (Crash, Pause, Partition):
            faults.append(_against_processes(rng, kind, mortal, at_s, duration_s))
        elif kind is Slow:
            faults.append(Slow(rng.randrange(num_workers), at_s, duration_s, _between(rng, 1.5, 10.0)))
        elif kind is Loss:
            source, target = rng.sample(range(num_nodes), 2)
            faults.append(Loss(source, target, at_s, duration_s))
        elif kind is Spike:
            faults.append(Spike(at_s, duration_s, _between(rng, 0.01, 0.5)))
        elif kind is Duplicates:
            faults.append(Duplicates(at_s, duration_s, _between(rng, 0.001, 0.1)))
        elif kind is Skew:
            node = rng.randrange(num_nodes)
            faults.append(Skew(node, round(rng.uniform(-10.0, 10.0), 6), round(rng.uniform(0.9, 1.1), 6)))
        elif kind is NonFiniteGradient:
            faults.append(NonFiniteGradient(rng.randrange(num_workers), rng.randrange(num_steps)))
        else:
            faults.append(EarlyFinish(rng.randrange(num_workers), rng.randint(1, num_steps - 1)))
    return faults


def _against_processes(rng: Random, kind: type, mortal: list[NodeId], at_s: float, duration_s: float) -> Fault:
    """A fault that may cost processes their membership; those are used up."""
    if kind is Partition:
        workers = tuple(sorted(rng.sample(mortal, rng.randint(1, len(mortal)))))
        for worker in workers:
            mortal.remove(worker)
        return Partition(workers, at_s, duration_s)
    worker = mortal.pop(rng.randrange(len(mortal)))
    return Crash(worker, at_s) if kind is Crash else Pause(worker, at_s, duration_s)


def _joins(rng: Random, faults: Sequence[Fault], num_workers: int, length_s: float) -> list[Fault]:
    """Newcomers: for workers that are lost, soon or late, and in place of one that is not there at the start."""
    joins: list[Fault] = [
        Rejoin(fault.worker, round(fault.at_s + _between(rng, 0.05, 2.0), 6))
        for fault in faults
        if isinstance(fault, Crash | Pause) and rng.random() < 0.6
    ]
    hit = {fault.worker for fault in faults if isinstance(fault, Crash | Pause | Slow | EarlyFinish)}
    hit |= {worker for fault in faults if isinstance(fault, Partition) for worker in fault.workers}
    spare = [worker for worker in range(num_workers) if worker not in hit]
    if len(spare) > 1 and rng.random() < 0.3:
        joins.append(Join(rng.choice(spare), round(rng.uniform(0.0, length_s), 6)))
    return joins


def _samples(seed: int, worker: NodeId, least: int, num_steps: int) -> tuple[float, ...]:
    """Unequal, over the workers and from step to step."""
    rng = Random(f"samples/{seed}/{worker}")
    return tuple(float(least + rng.randint(0, 3)) for _ in range(num_steps))
