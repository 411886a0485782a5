"""Weft's all-reduce as a contender: a strategy that does nothing but sum, run like any other by `weft run`."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

import weft
from weft.bench.contenders.sums import Vector, compete, num_elements
from weft.bench.serving import Task, own_task
from weft.core.actions import SUM, Compute, Reduce
from weft.core.events import GradientReady, StepFinished
from weft.core.names import GRADIENT, Carries, NodeId
from weft.core.peer import Actions, Peer
from weft.core.seat import current
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.runtime.seats.live_seat import LiveSeat


@dataclass(frozen=True)
class SumGradients(Strategy):
    """Sums every gradient over all workers."""

    @property
    def keeps_replicas_equal(self) -> bool:
        return True

    def kinds(self) -> Mapping[str, Carries]:
        return {"sum": Carries.GRADIENT}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return SumPeer(me, world, rng)


class SumPeer(Peer):
    """One reduction for each gradient."""

    def __init__(self, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.round = 0

    def on_gradient_ready(self, event: GradientReady) -> Actions:
        self.round += 1
        return [Reduce(self.world.workers, "sum", self.round, self.world.gradient[event.bucket], SUM, event.samples)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        return [Compute(self.step)]


def main(task: Task) -> None:
    """Bring a gradient, take the sum; the step at the end is there because every script makes one."""
    seat = current()
    assert isinstance(seat, LiveSeat)
    array = np.zeros(num_elements(task.work), np.float32)
    worker = weft.join(arrays={"vector": array}, optimizer=weft.SGD(lr=0.1), strategy=SumGradients())
    seat.settle()
    replica = worker._replica
    vector: Vector = replica.array("given", 0)

    def reduce() -> Vector:
        seat.backward_finished(1.0)
        total: Vector = replica.array(GRADIENT, 0)
        return total

    compete(task, worker.rank, vector, reduce)
    worker.step({"vector": array}, samples=1)


if __name__ == "__main__":
    main(own_task())
