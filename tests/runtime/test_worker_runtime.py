"""Everything behind a seat: two workers' plants in one process, over one host's shared memory."""

import os
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import pytest
from support.processes.records import job_with

from weft.adapters.array_replica import ArrayReplica
from weft.config.registry import strategy as strategy_of
from weft.core.errors import Deadlock
from weft.core.events import GradientReady, StepFinished
from weft.core.rules import SGD
from weft.core.script_state import IN_STEP
from weft.data.share_records import Reached
from weft.engines.real.hops import plans_between
from weft.runtime.building import build
from weft.runtime.connections import SHM, Connections
from weft.runtime.descriptors import Descriptors
from weft.runtime.mailbox import VALUES
from weft.runtime.worker_runtime import WorkerRuntime
from weft.transports.bells import NUM_BELLS

NUM_WORKERS = 2


class Pair:
    """Two workers that step together, driven in turn by one thread."""

    def __init__(self, strategy: str, collective: str | None = None) -> None:
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        bells = [[os.eventfd(0, flags) for _ in range(NUM_BELLS)] for _ in range(NUM_WORKERS)]
        arena, rings, initial, once = (os.memfd_create(name) for name in ("arena", "rings", "initial", "once"))
        self.plants: list[WorkerRuntime] = []
        for rank in range(NUM_WORKERS):
            job = job_with(
                rank=rank,
                num_workers=NUM_WORKERS,
                transport=SHM,
                bucket_bytes_max=1 << 20,
                outbox_bytes_max=100,
                checks_replay=True,
                descriptors=Descriptors(arena, rings, initial, once, bells),
            )
            replica = ArrayReplica({"w": np.zeros(3)}, SGD(lr=1.0), None)
            recipe = strategy_of(strategy, collective)
            self.plants.append(build(job, recipe, replica, [0], Connections(job), [0, 0], self.until, plans_between))
        for runtime in self.plants:
            runtime.driver.start()
        self.until(lambda: all(runtime.worker.computes == 0 for runtime in self.plants))

    def until(self, done: Callable[[], bool]) -> None:
        """Drive both until something holds."""
        for _ in range(1000):
            if done():
                return
            for runtime in self.plants:
                runtime.driver.progress()
        raise AssertionError("it does not go on")

    def give(self, rank: int, gradient: float) -> None:
        worker = self.plants[rank].worker
        worker.store.replica.take({"w": np.full(3, gradient)})  # type: ignore[attr-defined]
        self.plants[rank].driver.deliver(worker, GradientReady(worker.computes or 0, 0, 1.0))

    def step(self, *gradients: float) -> None:
        for rank, gradient in enumerate(gradients):
            self.give(rank, gradient)
        self.until(lambda: not any(runtime.worker.peer.holds_user for runtime in self.plants))
        for runtime in self.plants:
            worker, step = runtime.worker, runtime.worker.computes or 0
            worker.script.at = IN_STEP
            runtime.driver.deliver(worker, StepFinished(step, 1.0, None))
        self.until(lambda: all(runtime.worker.computes == step + 1 for runtime in self.plants))

    def params(self) -> list[list[float]]:
        return [runtime.worker.store.replica.array("params", 0).tolist() for runtime in self.plants]


@pytest.mark.parametrize(("strategy", "collective"), [("allreduce", None), ("allreduce", "ring"), ("ps", None)])
def test_both_workers_step_by_the_mean_and_the_run_can_be_replayed(strategy: str, collective: str | None) -> None:
    pair = Pair(strategy, collective)
    pair.step(1.0, 3.0)
    pair.step(0.0, 1.0)
    assert pair.params() == [[-2.5] * 3] * 2
    for rank, runtime in enumerate(pair.plants):
        concluded = runtime.conclude(pair.until, None, 0, with_consensus=rank == 0)
        assert concluded.consensus == (0.0 if rank == 0 and strategy == "ps" else None)
        assert concluded.replay == []


def test_how_far_replicas_are_apart_that_are_to_be_equal_is_not_for_a_worker_to_say() -> None:
    pair = Pair("allreduce")
    pair.step(1.0, 3.0)
    for runtime in pair.plants:
        assert runtime.conclude(pair.until, None, 0, with_consensus=True).consensus is None
        assert runtime.conclude(pair.until, 0.0, 3, with_consensus=True).consensus == 0.0
        assert runtime.conclude(pair.until, None, 3, with_consensus=False).num_unused == 3


def test_the_result_of_averaging_methods_is_fetched_from_the_other_processes() -> None:
    pair = Pair("local_sgd(period=5)")
    pair.step(1.0, 3.0)
    assert pair.params() == [[-1.0] * 3, [-3.0] * 3]
    for runtime in pair.plants:
        (mean,) = runtime.result(pair.until).models().values()
        assert mean[0].tolist() == [-2.0] * 3


@pytest.mark.parametrize("best", [0, 1])
def test_the_members_of_an_ensemble_and_the_best_of_them_are_fetched(best: int) -> None:
    pair = Pair("ensemble")
    pair.step(1.0, 3.0)
    for runtime in pair.plants:
        result = runtime.result(pair.until, best)
        members = {prefix: arrays[0].tolist() for prefix, arrays in result.models().items()}
        assert members == {"member0.": [-1.0] * 3, "member1.": [-3.0] * 3}
        assert result.models("best")[""][0].tolist() == members[f"member{best}."]


def test_only_equal_replicas_that_reduce_in_shared_memory_need_no_background_driver() -> None:
    assert not Pair("allreduce").plants[0].needs_background
    assert all(Pair(*each).plants[0].needs_background for each in (("allreduce", "ring"), ("gossip",), ("ps",)))


def test_servers_sit_on_worker_processes() -> None:
    first, second = Pair("ps").plants
    assert (sorted(first.driver.nodes), sorted(second.driver.nodes)) == ([0, 2], [1])


def test_bytes_and_copies_are_counted() -> None:
    pair = Pair("gossip")
    before = [runtime.counters()[0] for runtime in pair.plants]
    pair.step(1.0, 3.0)
    assert all(runtime.counters()[0] - sent >= 64 + 3 * 8 for runtime, sent in zip(pair.plants, before, strict=True))
    assert all(runtime.counters()[2] == 0 for runtime in pair.plants)


def test_a_worker_says_what_it_waits_for_and_that_it_waits_in_vain() -> None:
    pair = Pair("allreduce")
    pair.give(0, 1.0)
    first, second = pair.plants
    assert first.waiting_for() == "the reduction of gradient[0] at step 0 (worker 1)"
    first.check_alive()
    second.say_ended()
    with pytest.raises(Deadlock, match="waits for worker 1, whose script has ended"):
        first.check_alive()


def test_a_script_waits_while_too_much_has_not_left() -> None:
    pair = Pair("gossip")
    runtime = pair.plants[0]
    for _ in range(1000):
        runtime._mailbox._send_frame(1, VALUES, 0, 0, 0, (0, 0), 1.0, b"", np.zeros(3))
        if runtime.is_choked():
            break
    assert runtime.is_choked()
    pair.until(lambda: not runtime.is_choked())


def test_a_background_driver_rests_only_where_nothing_waits_to_leave_and_nobody_may_call() -> None:
    runtime = Pair("allreduce").plants[0]
    assert runtime.background_may_rest()
    transport = runtime._mailbox.transport
    assert transport is not None
    with patch.object(transport, "is_answering", return_value=True):
        assert not runtime.background_may_rest()
    assert (runtime.doors, transport.door_set()) == ([], [])  # rings have no door
    for _ in range(1000):
        runtime._mailbox._send_frame(1, VALUES, 0, 0, 0, (0, 0), 1.0, b"", np.zeros(3))
        if runtime.is_choked():
            break
    assert not runtime.background_may_rest()
    assert not any(
        Pair(*each).plants[0].background_may_rest() for each in (("allreduce", "ring"), ("gossip",), ("ps",))
    )


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (Reached(0, {}), Reached(0, {})),
        (Reached(3, {}), Reached(3, {})),
        (Reached(3, {2: 5}), Reached(3, {2: 5})),
        (Reached(3, {2: 5, 1: 4}), Reached(3, {1: 4})),
    ],
    ids=["nothing", "between shares", "in one", "the oldest"],
)
def test_where_a_worker_was_in_its_shares_is_read_by_another_from_the_shared_memory(
    told: Reached, read: Reached
) -> None:
    mine, other = Pair("allreduce").plants
    mine.publish(Reached(9, {0: 9}))
    other.publish(told)
    assert mine.published(1) == read
    assert other.published(0) == Reached(9, {0: 9})
