"""Reductions by a library that wants one order: agreed on, weighted, and not touched while they are under way."""

from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.devices.late_sums import Notes, Stream
from support.processes.launches import TRAIN, launched
from support.processes.one_host import Memory
from support.processes.real import real

from weft.core.actions import MAX, MEAN, SUM, Combine, Reduce
from weft.core.errors import Deadlock, IllegalAction, UnexpectedMessage
from weft.core.events import Reduced
from weft.core.names import Bucket, Buffer, Part, Roles
from weft.core.world import World
from weft.runtime.reduce.agreed import Agreed, AgreedReduce, Given, LibraryNote, ScriptEnded, apart_memory
from weft.store.live import LiveStore
from weft.store.reduction import reduce_arrays

BUCKETS = (Bucket(100), Bucket(7, 8), Bucket(5, 2))


class Workers:
    """Several workers in one process, whose notes and sums take as long as chance wants."""

    def __init__(self, num_workers: int, seed: int = 0, *, gradient_is_given: bool = True) -> None:
        self.chance = Random(seed)
        self.num = num_workers
        self.stream, self.notes = Stream(num_workers), Notes(num_workers)
        world = World(Roles(num_workers), BUCKETS)
        self.memories = [apart_memory(BUCKETS, summing) for summing in self.stream.processes]
        self.stores = [LiveStore(Memory(BUCKETS, p.params, p.seen), (), {}) for p in self.memories]  # type: ignore[arg-type]
        self.each = [
            AgreedReduce(
                world,
                rank,
                self.notes.ends[rank],  # type: ignore[arg-type]
                self.stores[rank],
                self.stream.processes[rank],
                lambda: None,
                self.memories[rank].given if gradient_is_given else (),
            )
            for rank in range(num_workers)
        ]
        self.ended: list[list[Reduced]] = [[] for _ in range(num_workers)]

    def drive(self) -> bool:
        """One thing more happens, somewhere; False if nothing can."""
        can = [
            lambda: self.notes.carry_one(self.chance),
            self.stream.end_one,
            *(lambda rank=rank: self.each[rank].progress(self.ended[rank].append) for rank in range(self.num)),
        ]
        self.chance.shuffle(can)
        return any(act() for act in can)

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.drive():
                return
        raise AssertionError("it does not come to rest")


def reduce(num_workers: int, bucket: int, clock: int = 0, weight: float = 1.0, *, slot: str = "gradient",
           op: str = MEAN) -> Reduce:  # fmt: skip
    return Reduce(tuple(range(num_workers)), "gradient", clock, Buffer(slot, bucket), op, weight)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32), num_workers=st.integers(2, 4), op=st.sampled_from([MEAN, SUM, MAX]))
def test_whatever_the_order_in_which_workers_give_all_get_the_weighted_result(
    seed: int, num_workers: int, op: str
) -> None:
    workers, rng = Workers(num_workers, seed), np.random.default_rng(seed)
    chance = workers.chance
    for clock in range(3):
        inputs, weights = {}, {}
        for rank in range(num_workers):
            for bucket in range(len(BUCKETS)):
                workers.memories[rank].given[bucket][:] = rng.normal(size=BUCKETS[bucket].num_elements)
                inputs[rank, bucket] = workers.memories[rank].given[bucket].copy()
                weights[rank, bucket] = chance.choice([0.0, 1.0, 1.0, 3.0])
        todo = list(inputs)
        chance.shuffle(todo)
        while todo:
            rank, bucket = todo.pop()
            workers.each[rank].join(reduce(num_workers, bucket, clock, weights[rank, bucket], op=op))
            for _ in range(chance.randrange(4)):
                workers.drive()
        workers.settle()
        for bucket, kind in enumerate(BUCKETS):
            told = [weights[rank, bucket] for rank in range(num_workers)]
            values = [inputs[rank, bucket] for rank in range(num_workers)]
            for rank in range(num_workers):
                expected = reduce_arrays(values, told, op) if any(told) else values[rank]
                tolerance = {2: 2e-3, 4: 1e-5, 8: 1e-12}[kind.itemsize]
                np.testing.assert_allclose(workers.memories[rank].seen[bucket], expected, tolerance, tolerance)
                assert np.array_equal(workers.memories[rank].given[bucket], inputs[rank, bucket]), "the input stays"
                assert Reduced(clock, Buffer("gradient", bucket), sum(told)) in workers.ended[rank]
    assert {len(events) for events in workers.ended} == {3 * len(BUCKETS)}


def test_a_contribution_that_weighs_nothing_is_left_out_even_if_it_is_no_number() -> None:
    workers = Workers(2)
    workers.memories[0].given[0][:] = np.nan
    workers.memories[1].given[0][:] = 3.0
    for rank, weight in enumerate((0.0, 5.0)):
        workers.each[rank].join(reduce(2, 0, weight=weight))
    workers.settle()
    assert all(np.array_equal(memory.seen[0], np.full(100, 3.0)) for memory in workers.memories)


def test_what_is_written_after_a_reduction_was_asked_for_does_not_leak_into_it() -> None:
    """Rules 3 and 4 of docs/architecture.md: the value is that of now, however late the library sums it; the result
    comes with Reduced."""
    workers = Workers(2, gradient_is_given=False)
    buffer = Buffer("params", 1)
    for rank, worker in enumerate(workers.each):
        workers.memories[rank].params[1][:] = rank
        worker.join(reduce(2, 1, slot="params"))
        workers.stores[rank].combine(Combine(buffer, 0.0, None, 0.0))
    while workers.stream.num_done == 0:
        assert workers.ended == [[], []]
        assert all(np.array_equal(memory.params[1], np.zeros(7)) for memory in workers.memories), "nobody sees it early"
        workers.drive()
    workers.settle()
    assert workers.ended == [[Reduced(0, buffer, 2.0)]] * 2
    assert all(np.array_equal(memory.params[1], np.full(7, 0.5)) for memory in workers.memories)
    assert [worker.num_copies for worker in workers.each] == [1, 1]


def test_nothing_is_ended_before_the_library_says_so_though_it_was_begun_long_ago() -> None:
    workers = Workers(2)
    for worker in workers.each:
        worker.join(reduce(2, 0))
    workers.stream.end_one = lambda: False  # type: ignore[method-assign]
    workers.settle()
    assert [len(each.begun) for each in workers.stream.processes] == [1, 1]
    assert workers.ended == [[], []]
    del workers.stream.end_one
    workers.settle()
    assert workers.ended == [[Reduced(0, Buffer("gradient", 0), 2.0)]] * 2


def test_a_reduction_to_which_all_bring_nothing_leaves_the_value_and_bothers_nobody() -> None:
    workers = Workers(2)
    for rank, worker in enumerate(workers.each):
        workers.memories[rank].given[0][:] = rank
        worker.join(reduce(2, 0, weight=0.0))
    workers.settle()
    assert [memory.seen[0][0] for memory in workers.memories] == [0.0, 1.0]
    assert [each.begun for each in workers.stream.processes] == [[], []]
    assert workers.ended == [[Reduced(0, Buffer("gradient", 0), 0.0)]] * 2


def test_no_worker_begins_what_another_has_not_given_to() -> None:
    workers = Workers(3)
    for worker in workers.each[:2]:
        worker.join(reduce(3, 0))
    workers.settle()
    assert [each.begun for each in workers.stream.processes] == [[], [], []]
    assert workers.each[0].waits_for() == [2]
    assert workers.each[1].waits_for() == [], "only worker 0 knows"
    assert workers.each[2].waits_for() == []


def test_a_reduction_that_differs_between_workers_is_a_bug_of_the_strategy() -> None:
    workers = Workers(2)
    workers.each[0].join(reduce(2, 0, clock=3))
    workers.each[1].join(reduce(2, 0, clock=4))
    with pytest.raises(IllegalAction, match="met another reduction of its bucket on worker 1, at clock 4"):
        workers.settle()


@pytest.mark.parametrize(
    "action",
    [
        Reduce((0,), "gradient", 0, Buffer("gradient", 0), MEAN, 1.0),
        Reduce((0, 1), "gradient", 0, Buffer("gradient", 0), "median", 1.0),
        Reduce((0, 1), "gradient", 0, Buffer("gradient", 0), MEAN, -1.0),
        Reduce((0, 1), "gradient", 0, Buffer("gradient", 0, Part(0, 2)), MEAN, 1.0),
    ],
)
def test_illegal_reductions_are_refused(action: Reduce) -> None:
    with pytest.raises(IllegalAction):
        Workers(2).each[0].join(action)


def test_a_bucket_has_one_reduction_at_a_time() -> None:
    worker = Workers(2).each[1]
    worker.join(reduce(2, 0))
    with pytest.raises(IllegalAction, match="while a reduction of its bucket was under way"):
        worker.join(reduce(2, 0, clock=1))


@pytest.mark.parametrize("ended", [0, 2])
def test_waiting_for_a_worker_whose_script_has_ended_is_a_deadlock(ended: int) -> None:
    workers = Workers(3)
    for rank, worker in enumerate(workers.each):
        if rank != ended:
            worker.join(reduce(3, 0, clock=5))
    workers.settle()
    workers.each[0].check_alive()
    workers.each[ended].say_ended()
    workers.settle()
    with pytest.raises(
        Deadlock, match=rf"of gradient\[0\] at clock 5 waits for worker {ended}, whose script has ended"
    ):
        workers.each[0].check_alive()


@pytest.mark.parametrize(
    ("target", "source", "note"),
    [
        (1, 0, b"\xc1"),
        (1, 2, Given("gradient", 0, 0, "gradient", MEAN, 1.0)),
        (0, 1, Given("gradient", 0, 0, "gradient", MEAN, float("nan"))),
        (1, 2, ScriptEnded()),
        (1, 2, Agreed("gradient", 0, [1.0, 1.0, 1.0])),
        (1, 0, Agreed("gradient", 1, [1.0, 1.0, 1.0])),
        (1, 0, Agreed("gradient", 0, [1.0, 1.0])),
        (1, 0, Agreed("gradient", 0, [1.0, 1.0, -1.0])),
    ],
)
def test_notes_that_are_not_their_senders_to_write_are_refused(target: int, source: int, note: object) -> None:
    worker = Workers(3).each[target]
    worker.join(reduce(3, 0))
    raw = note if isinstance(note, bytes) else msgspec.msgpack.encode(note)
    with pytest.raises(UnexpectedMessage, match=f"worker {source} sent"):
        worker._hear(source, raw)


def test_a_worker_that_gives_twice_is_refused() -> None:
    worker = Workers(3).each[0]
    raw = msgspec.msgpack.encode(Given("gradient", 0, 0, "gradient", MEAN, 1.0))
    worker._hear(1, raw)
    with pytest.raises(UnexpectedMessage, match=r"worker 1 gave twice to a reduction of gradient\[0\]"):
        worker._hear(1, raw)


def test_what_the_library_has_to_say_to_meet_goes_to_all_others() -> None:
    workers = Workers(3)
    workers.each[1].join(reduce(3, 0))
    workers.each[1].progress(workers.ended[1].append)
    message = msgspec.msgpack.encode(LibraryNote("1", b"here"))
    assert all(message in workers.notes.under_way[1, other] for other in (0, 2))


def test_bytes_are_counted_as_in_a_ring_and_goodbye_is_said() -> None:
    workers = Workers(4)
    for worker in workers.each:
        worker.join(reduce(4, 0))
    workers.settle()
    for worker in workers.each:
        assert worker.bytes_shared == 2 * 3 * 400 // 4
        worker.close()
    assert all(each.is_closed for each in workers.stream.processes)


DIES_IN_A_SUM = """
import os, signal, sys, threading, time
import numpy as np
import weft

w = np.zeros(1_000_000)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))

def die():
    os.write(1, f"died at {time.monotonic()}\\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)

for epoch in worker.epochs(10_000):
    for rows in worker.share(30, batch_size=2):
        worker.step({"w": w})
        if worker.steps == 5 and worker.rank == int(sys.argv[1]):
            threading.Timer(float(sys.argv[2]), die).start()
"""


@pytest.mark.clock
@pytest.mark.parametrize(("rank", "after_s"), [(0, 0.07), (2, 0.15)])
def test_a_worker_killed_while_torch_sums_is_named_and_the_others_end_within_two_seconds(
    rank: int, after_s: float, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(DIES_IN_A_SUM)
    with launched(tmp_path / "train.py", "-n", 3, "--transport", "torch", "--", rank, after_s) as run:
        assert run.end() == 1
        assert run.took_s < 2.0
        assert run.leftovers(0.0) == set()
    assert f"NodeLost: worker {rank} (host " in run.text
    assert "killed by signal 9 (SIGKILL)" in run.text
    assert "waiting for the reduction of gradient[0] at step" in run.text
    assert "Traceback" not in run.text


def test_a_script_that_makes_fewer_steps_than_the_others_is_a_deadlock_that_says_so(tmp_path: Path) -> None:
    steps = "for _ in range(5 - worker.rank):\n    worker.step({'w': w}, samples=1)\n"
    (tmp_path / "train.py").write_text(TRAIN + steps)
    with pytest.raises(Deadlock, match=r"waits for worker [12], whose script has ended"):
        real(tmp_path / "train.py", 3, transport="torch")
