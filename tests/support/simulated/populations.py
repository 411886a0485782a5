"""Populations that train on a problem whose best learning rate is known, and what they did on the way."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from support.simulated.weather import storm
from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import Note, Send
from weft.core.events import Received
from weft.core.names import NodeId
from weft.core.rules import SGD
from weft.sim.program import BackwardDone, ReportDone, Request, StepDone
from weft.strategies import Population
from weft.testing.worlds import Ran, simulate_arrays, tuned

LOW, HIGH = 0.001, 1.9
FIRST = 0.02
"""The learning rate that all begin with; the best is 1."""
NUM_EPOCHS, EPOCH_STEPS = 12, 3


class Taken(NamedTuple):
    """Somebody took something of somebody after an epoch."""

    worker: NodeId
    source: NodeId
    epoch: int


@dataclass
class Life:
    """A population's run: the learning rates of each worker, step by step, and its losses, epoch by epoch."""

    num_workers: int
    rates: dict[NodeId, list[float]] = field(default_factory=dict)
    losses: dict[NodeId, list[float]] = field(default_factory=dict)
    ran: Ran = field(init=False)

    def taken(self, note: str = "copied") -> list[Taken]:
        """Who took something of whom, by what peers noted."""
        return [
            Taken(node, int(action.value), event.clock)
            for _, node, event, actions in self.ran.recording.entries
            for action in actions
            if isinstance(action, Note) and action.name == note and isinstance(event, Received)
        ]

    def told(self, trait: str) -> list[dict[NodeId, float]]:
        """What workers told of themselves after each epoch."""
        told: list[dict[NodeId, float]] = [{} for _ in range(NUM_EPOCHS)]
        for _, node, _, actions in self.ran.recording.entries:
            for action in actions:
                if isinstance(action, Send) and action.kind == "score":
                    assert action.data is not None
                    told[action.clock][node] = action.data[trait]  # type: ignore[assignment]
        return told

    @property
    def loss(self) -> float:
        """Of the result."""
        return bowl(self.ran.result[0])


def bowl(w: np.ndarray) -> float:
    return float(w @ w) / 2


def live(num_workers: int, seed: int = 0, **options: Any) -> Life:
    """Train a population in a storm; every worker has all data, so that scores differ by learning rates alone."""
    life = Life(num_workers)

    def script(rank: NodeId, replica: ArrayReplica) -> Generator[Request, None, None]:
        w: Any = replica.views()["w"]
        optimizer: Any = replica._optimizer
        rates, losses = life.rates.setdefault(rank, []), life.losses.setdefault(rank, [])
        for epoch in range(NUM_EPOCHS):
            for _ in range(EPOCH_STEPS):
                replica.take({"w": w.copy()})
                yield from tuned(replica, BackwardDone(1.0))
                rates.append(optimizer.lr)
                yield from tuned(replica, StepDone(1.0, None))
            losses.append(bowl(w))
            yield from tuned(replica, ReportDone(epoch, {"loss": losses[-1]}))

    life.ran = simulate_arrays(
        Population(**options),
        num_workers,
        script=script,
        starts=[np.array([3.0, 4.0])] * num_workers,
        rule=SGD(FIRST),
        tunes={"lr": (LOW, HIGH)},
        **storm(num_workers, seed),
    )
    return life


def loss_alone() -> float:
    """Of one worker that trains for as long with the learning rate that all begin with."""
    return bowl(np.array([3.0, 4.0]) * (1 - FIRST) ** (NUM_EPOCHS * EPOCH_STEPS))
