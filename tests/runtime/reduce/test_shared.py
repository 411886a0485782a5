"""Reductions on one host: the right bits in any order of events, and clear errors when workers disagree."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes.one_host import Host

from weft.core.actions import MAX, MEAN, SUM, Reduce
from weft.core.errors import Deadlock, IllegalAction
from weft.core.events import Reduced
from weft.core.names import Bucket, Buffer, Part
from weft.runtime.reduce import shared as module
from weft.runtime.reduce.shared import ENDED, SharedReduce
from weft.store.reduction import reduce_arrays

BUCKETS = (Bucket(100), Bucket(7, 8))


def reducers(host: Host, *, gradient_is_given: bool = True) -> list[SharedReduce]:
    return [
        SharedReduce(arena, bells, store, gradient_is_given=gradient_is_given)
        for arena, bells, store in zip(host.arenas, host.bells, host.stores, strict=True)
    ]


def reduce(bucket: int, clock: int, weight: float, num_workers: int, slot: str = "gradient", op: str = MEAN) -> Reduce:
    return Reduce(tuple(range(num_workers)), "gradient", clock, Buffer(slot, bucket), op, weight)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), num_workers=st.integers(1, 4), op=st.sampled_from([MEAN, SUM, MAX]))
def test_any_interleaving_gives_the_bits_of_reduce_arrays(seed: int, num_workers: int, op: str) -> None:
    chance = Random(seed)
    host = Host(num_workers, BUCKETS)
    workers = reducers(host)
    rng = np.random.default_rng(seed)
    for clock in range(3):
        inputs, weights = {}, {}
        for rank in range(num_workers):
            for bucket in range(len(BUCKETS)):
                inputs[rank, bucket] = host.memories[rank].given[bucket]
                inputs[rank, bucket][:] = rng.normal(size=BUCKETS[bucket].num_elements)
                weights[rank, bucket] = chance.choice([0.0, 1.0, 1.0, 3.0])
        todo = [(rank, bucket) for rank in range(num_workers) for bucket in range(len(BUCKETS))]
        done: dict[int, list[Reduced]] = {rank: [] for rank in range(num_workers)}
        while todo or any(len(events) < len(BUCKETS) for events in done.values()):
            rank = chance.randrange(num_workers)
            mine = [each for each in todo if each[0] == rank]
            if mine and chance.random() < 0.5:
                todo.remove(mine[0])
                workers[rank].join(reduce(mine[0][1], clock, weights[mine[0]], num_workers, op=op))
            workers[rank].progress(done[rank].append)
        for bucket in range(len(BUCKETS)):
            told = [weights[rank, bucket] for rank in range(num_workers)]
            values = [inputs[rank, bucket] for rank in range(num_workers)]
            for rank in range(num_workers):
                expected = reduce_arrays(values, told, op) if any(told) else values[rank]
                assert np.array_equal(host.memories[rank].seen[bucket], expected)
        assert {event.weight for event in done[0]} == {
            sum(weights[rank, bucket] for rank in range(num_workers)) for bucket in range(len(BUCKETS))
        }
    host.close()


def test_parameters_are_staged_and_written_back() -> None:
    host = Host(2, BUCKETS)
    workers = reducers(host, gradient_is_given=False)
    for rank, worker in enumerate(workers):
        host.memories[rank].params[0][:] = rank
        worker.join(reduce(0, 0, 1.0, 2, slot="params"))
    ended: list[Reduced] = []
    for worker in (*workers, *workers):
        worker.progress(ended.append)
    assert ended == [Reduced(0, Buffer("params", 0), 2.0)] * 2
    assert all(np.array_equal(memory.params[0], np.full(100, 0.5)) for memory in host.memories)
    assert [worker.num_copies for worker in workers] == [1, 1]
    host.close()


def test_what_a_script_writes_to_its_gradient_stays_its_own_and_the_next_result_is_whole() -> None:
    host = Host(2, BUCKETS)
    workers = reducers(host)
    for clock in range(3):
        for rank, worker in enumerate(workers):
            host.memories[rank].given[0][:] = clock + rank
            worker.join(reduce(0, clock, 1.0, 2))
        for worker in (*workers, *workers):
            worker.progress(lambda event: None)
        assert all(np.array_equal(memory.seen[0], np.full(100, clock + 0.5)) for memory in host.memories)
        host.memories[0].seen[0][:] *= 2  # as clipping does
        assert np.array_equal(host.memories[1].seen[0], np.full(100, clock + 0.5))
    assert [worker.num_copies for worker in workers] == [2, 0]
    host.close()


def test_a_reduction_that_differs_between_workers_is_a_bug_of_the_strategy() -> None:
    host = Host(2, BUCKETS)
    first, second = reducers(host)
    first.join(reduce(0, 3, 1.0, 2))
    second.join(reduce(0, 4, 1.0, 2))
    with pytest.raises(IllegalAction, match="met another reduction of its bucket on worker 1, at clock 4"):
        first.progress(lambda event: None)
    host.close()


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
    host = Host(2, BUCKETS)
    with pytest.raises(IllegalAction):
        reducers(host)[0].join(action)
    host.close()


def test_a_bucket_has_one_reduction_at_a_time() -> None:
    host = Host(2, BUCKETS)
    worker = reducers(host)[0]
    worker.join(reduce(0, 0, 1.0, 2))
    with pytest.raises(IllegalAction, match="while a reduction of its bucket was under way"):
        worker.join(reduce(0, 1, 1.0, 2))
    host.close()


def test_waiting_for_a_worker_whose_script_has_ended_is_a_deadlock() -> None:
    host = Host(3, BUCKETS)
    workers = reducers(host)
    for worker in workers[:2]:
        worker.join(reduce(0, 5, 1.0, 3))
    assert workers[0].waits_for() == [2]
    workers[0].check_alive()
    host.arenas[2].words[host.arenas[2].worker_line(2) + ENDED] = 1
    with pytest.raises(Deadlock, match=r"the reduction of gradient\[0\] at clock 5 waits for worker 2"):
        workers[0].check_alive()
    host.close()


def test_what_was_written_before_a_word_is_read_behind_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    host, seen = Host(2, BUCKETS), []
    first, second = reducers(host)
    first.join(reduce(0, 0, 1.0, 2))
    second.join(reduce(0, 0, 1.0, 2))
    first.progress(lambda event: None)
    monkeypatch.setattr(module, "fence", lambda: seen.append("fence"))
    monkeypatch.setattr(module, "reduce_into", lambda *args: seen.append("sum"))
    monkeypatch.setattr(second, "_take", lambda *args: seen.append("take"))
    second.progress(lambda event: None)
    assert seen == ["fence", "sum", "fence", "fence", "take"], "seen ready; to be told; seen done"


def test_a_cheap_look_says_whether_progress_could_do_anything() -> None:
    host = Host(2, BUCKETS)
    first, second = reducers(host)
    assert first.may_move(), "nothing is under way, so what it waits for is something else"
    first.join(reduce(0, 0, 1.0, 2))
    assert not first.may_move()
    second.join(reduce(0, 0, 1.0, 2))
    assert first.may_move(), "both have given"
    assert first.progress(nothing)
    assert not first.may_move(), "the other has not summed"
    second.progress(lambda event: None)
    assert first.may_move(), "both have summed"
    host.close()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), num_workers=st.integers(2, 4))
def test_where_a_cheap_look_finds_nothing_progress_does_nothing(seed: int, num_workers: int) -> None:
    chance, host = Random(seed), Host(num_workers, BUCKETS)
    workers = reducers(host)
    todo = [(rank, bucket) for rank in range(num_workers) for bucket in range(len(BUCKETS))]
    num_done, num_vain = [0] * num_workers, 0
    while min(num_done) < len(BUCKETS):
        rank = chance.randrange(num_workers)
        mine = [each for each in todo if each[0] == rank]
        if mine and chance.random() < 0.5:
            todo.remove(mine[0])
            workers[rank].join(reduce(mine[0][1], 0, 1.0, num_workers))
        may_move, done = workers[rank].may_move(), list[Reduced]()
        moved = workers[rank].progress(done.append)
        num_done[rank] += len(done)
        num_vain += not may_move
        assert may_move or not moved
    assert num_vain, "the look spared somebody a turn"
    host.close()


def among(members: tuple[int, ...], bucket: int, clock: int, weight: float = 1.0, slot: str = "gradient") -> Reduce:
    return Reduce(members, "gradient", clock, Buffer(slot, bucket), MEAN, weight)


def nothing(event: Reduced) -> None:
    raise AssertionError(f"{event} was told")


def test_a_reduction_that_all_have_summed_the_lost_one_too_ends_for_all_when_members_change() -> None:
    host = Host(4, BUCKETS)
    workers = reducers(host)
    for rank, worker in enumerate(workers):
        host.memories[rank].given[0][:] = rank
        worker.join(reduce(0, 0, 1.0, 4))
    for worker in workers[:3]:
        worker.progress(nothing)
    ended: list[Reduced] = []
    workers[3].progress(lambda event: None)  # and then it dies
    for worker in workers[:3]:
        assert worker.settle(ended.append)
        worker.change_members([0, 1, 2], 1)
        assert not worker.settle(nothing)
    assert ended == [Reduced(0, Buffer("gradient", 0), 4.0)] * 3
    assert all(np.array_equal(memory.seen[0], np.full(100, 1.5)) for memory in host.memories[:3])
    host.close()


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("slot", ["gradient", "params"])
@pytest.mark.parametrize("bucket", range(len(BUCKETS)))
def test_one_that_the_lost_worker_has_not_summed_is_forgotten_and_the_members_mean_is_taken(
    lost: int, slot: str, bucket: int
) -> None:
    host = Host(4, BUCKETS)
    workers, members = reducers(host), tuple(rank for rank in range(4) if rank != lost)
    size = BUCKETS[bucket].num_elements
    for rank, worker in enumerate(workers):
        values = host.memories[rank].given if slot == "gradient" else host.memories[rank].params
        values[bucket][:] = np.arange(size) * 10.0**rank
        worker.join(reduce(bucket, 0, 1.0, 4, slot))
    for rank in members:
        workers[rank].progress(nothing)
    for rank in members:
        assert not workers[rank].settle(nothing)
        workers[rank].change_members(members, 1)
        assert workers[rank].waits_for() == []
    ended: list[Reduced] = []
    for rank in members:
        workers[rank].join(among(members, bucket, 0, rank + 1.0, slot))
        workers[rank].progress(nothing)
    for rank in (*members, *members):
        workers[rank].progress(ended.append)
    weights = [rank + 1.0 for rank in members]
    assert ended == [Reduced(0, Buffer(slot, bucket), sum(weights))] * 3
    inputs = [(np.arange(size) * 10.0**rank).astype(f"f{BUCKETS[bucket].itemsize}") for rank in members]
    for rank in members:
        memory = host.memories[rank].seen if slot == "gradient" else host.memories[rank].params
        assert np.array_equal(memory[bucket], reduce_arrays(inputs, weights, MEAN))
    host.close()


def test_words_of_the_old_view_are_not_taken_for_those_of_the_new_one() -> None:
    host = Host(3, BUCKETS)
    workers = reducers(host)
    for clock in range(5):
        for worker in workers:
            worker.join(reduce(0, clock, 1.0, 3))
        for worker in (*workers, *workers):
            worker.progress(lambda event: None)
    for worker in workers:
        worker.join(reduce(0, 5, 1.0, 3))
    for view, members in ((1, (0, 1)), (2, (0, 1))):
        for rank in members:
            workers[rank].change_members(members, view)
        for clock in (5, 6):
            workers[0].join(among(members, 0, clock))
            workers[0].progress(nothing)
            assert workers[0].waits_for() == [1]
            workers[1].join(among(members, 0, clock))
            workers[1].progress(nothing)
            for rank in (0, 1):
                workers[rank].progress(lambda event: None)
                assert workers[rank].waits_for() == []
    host.close()


def test_after_a_change_all_members_and_nobody_else_must_reduce() -> None:
    host = Host(3, BUCKETS)
    worker = reducers(host)[2]
    worker.change_members([1, 2], 1)
    with pytest.raises(IllegalAction, match="must name all workers"):
        worker.join(reduce(0, 0, 1.0, 3))
    worker.join(among((1, 2), 0, 0))
    assert worker.waits_for() == [1]
    host.arenas[0].words[host.arenas[0].worker_line(0) + ENDED] = 1
    worker.check_alive()
    host.arenas[1].words[host.arenas[1].worker_line(1) + ENDED] = 1
    with pytest.raises(Deadlock, match="waits for worker 1, whose script has ended"):
        worker.check_alive()
    host.close()


def test_a_member_that_differs_after_a_change_is_named_by_its_rank() -> None:
    host = Host(3, BUCKETS)
    workers = reducers(host)
    for rank in (0, 2):
        workers[rank].change_members([0, 2], 1)
        workers[rank].join(among((0, 2), 0, 3 + rank))
    with pytest.raises(IllegalAction, match="met another reduction of its bucket on worker 2, at clock 5"):
        workers[0].progress(nothing)
    host.close()
