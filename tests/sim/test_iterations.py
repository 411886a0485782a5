"""Iterations on shared cores: buckets are ready in their course; a stretched worker sleeps and has all at once."""

from random import Random

import pytest

from weft.core.events import GradientReady
from weft.core.names import Bucket, Roles
from weft.core.world import World
from weft.sim.facts import Facts
from weft.sim.iterations import Iterations
from weft.sim.kernel import NS_PER_S, Kernel
from weft.sim.node import SimulatedNode
from weft.sim.program import GhostProgram
from weft.store.ghost import GhostStore
from weft.strategies import AllReduce

Filled = list[tuple[float, int, int, bool]]


def filled(
    seconds: list[float],
    num_cores: int | None,
    stretch: tuple[float, ...] = (1.0, 1.0),
    busy_s: float = 0.0,
    gone: tuple[int, ...] = (),
) -> tuple[Filled, Facts]:
    """(when, worker, bucket, is the last) of two buckets of equal size, for workers that all begin at 0."""
    kernel, facts = Kernel(), Facts(len(seconds))
    buckets = (Bucket(10), Bucket(10))
    world = World(Roles(len(seconds), 0), buckets, None, (0,) * len(seconds))
    seen: Filled = []

    def fill(node: SimulatedNode, event: GradientReady, is_last: bool) -> None:
        seen.append((round(kernel.now_ns / NS_PER_S, 6), node.id, event.bucket, is_last))

    iterations = Iterations(kernel, facts, world, fill, lambda node: node.id in gone, num_cores, stretch)
    for worker, duration in enumerate(seconds):
        node = SimulatedNode(
            worker, AllReduce().peer(worker, world, Random(0)), GhostStore(buckets, []), GhostProgram([1], 1)
        )
        node.busy_ns = round(busy_s * NS_PER_S)
        iterations.begin(node, duration, 1.0)
    kernel.run()
    return seen, facts


def test_buckets_are_ready_in_the_course_of_an_iteration() -> None:
    seen, facts = filled([3.0], None)
    assert seen == [(2.0, 0, 0, False), (3.0, 0, 1, True)]
    assert facts.compute_s == [3.0]


def test_on_a_shared_core_everything_takes_longer_and_that_is_time_of_computing() -> None:
    seen, facts = filled([3.0, 3.0], 1)
    assert seen == [(4.0, 0, 0, False), (4.0, 1, 0, False), (6.0, 0, 1, True), (6.0, 1, 1, True)]
    assert facts.compute_s == [6.0, 6.0]


def test_a_stretched_worker_sleeps_beside_its_core_and_has_its_gradient_at_once() -> None:
    seen, facts = filled([3.0, 3.0], 1, (4.0, 1.0))
    assert seen == [(4.0, 1, 0, False), (6.0, 1, 1, True), (15.0, 0, 0, False), (15.0, 0, 1, True)]
    assert facts.compute_s == [15.0, 6.0]


def test_nobody_is_stretched_unless_it_is_said() -> None:
    assert filled([3.0, 3.0], 1, ())[0] == filled([3.0, 3.0], 1)[0]


def test_an_iteration_begins_when_its_node_has_finished_coding() -> None:
    assert filled([3.0], 2, (1.0,), busy_s=1.0)[0] == [(3.0, 0, 0, False), (4.0, 0, 1, True)]


def test_a_worker_that_died_while_it_was_coding_uses_no_core() -> None:
    seen, _ = filled([3.0, 3.0], 1, busy_s=1.0, gone=(0,))
    assert seen == [(3.0, 1, 0, False), (4.0, 1, 1, True)]


@pytest.mark.parametrize(("num_cores", "ready_s"), [(None, 2.0), (2, 2.0), (1, 4.0)])
def test_a_new_process_needs_a_core_before_its_first_step(num_cores: int | None, ready_s: float) -> None:
    kernel = Kernel()
    world = World(Roles(2, 0), (Bucket(10),), None, (0, 0))
    iterations = Iterations(kernel, Facts(2), world, lambda *filled: None, lambda node: False, num_cores)
    ready: list[tuple[int, float]] = []
    for worker in world.workers:
        iterations.prepare(worker, 2.0, lambda worker: ready.append((worker, kernel.now_s)), (worker,))
    kernel.run()
    assert ready == [(0, ready_s), (1, ready_s)]


def test_where_cores_are_not_shared_the_dead_leave_none_behind() -> None:
    kernel = Kernel()
    world = World(Roles(2, 0), (Bucket(10),), None, (0, 0))
    iterations = Iterations(kernel, Facts(2), world, lambda *filled: None, lambda node: False)
    iterations.prepare(1, 2.0, lambda: None, ())
    iterations.drop(0)
    kernel.run()
    assert kernel.now_s == 2.0
