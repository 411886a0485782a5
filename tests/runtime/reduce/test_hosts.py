"""Reductions on several hosts: right in any order of events, wherever the workers sit."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.network.sums import SumPost
from support.processes.one_host import Host

from weft.core.actions import MAX, MEAN, SUM, Reduce
from weft.core.errors import Deadlock, IllegalAction
from weft.core.events import Reduced
from weft.core.names import Bucket, Buffer
from weft.engines.real.hops import plans_between
from weft.runtime.reduce import hosts
from weft.runtime.reduce.between_hosts import BetweenHosts
from weft.runtime.reduce.hosts import ADDED, SPREAD, HostsReduce
from weft.runtime.reduce.shared import DONE, ENDED
from weft.store.reduction import reduce_arrays

BUCKETS = (Bucket(100, 8), Bucket(7, 8))


class Hosts:
    """Workers of several hosts in one process."""

    def __init__(self, *sizes: int) -> None:
        self.hosts = [Host(size, BUCKETS) for size in sizes]
        self.numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        self.memories = [memory for host in self.hosts for memory in host.memories]
        self.posts: dict[int, SumPost] = {}
        self.workers: list[HostsReduce] = []
        for host in self.hosts:
            ranks = range(len(self.workers), len(self.workers) + len(host.arenas))
            for rank, arena, bells, store in zip(ranks, host.arenas, host.bells, host.stores, strict=True):
                arena.ranks = ranks
                self.workers.append(
                    HostsReduce(
                        arena,
                        bells,
                        store,
                        gradient_is_given=True,
                        hosts=self.numbers,
                        mailbox=SumPost(rank, self.posts),  # type: ignore[arg-type]
                        planner=plans_between,
                    )
                )

    def deliver(self, rank: int, chance: Random) -> None:
        """Deliver to this worker the next part that has come from somebody."""
        if waiting := self.posts[rank].waiting:
            self.posts[rank].deliver(chance.choice(waiting))

    def reduce(self, bucket: int, clock: int, weight: float, slot: str = "gradient", op: str = MEAN) -> Reduce:
        return Reduce(tuple(range(len(self.workers))), "gradient", clock, Buffer(slot, bucket), op, weight)

    def close(self) -> None:
        for mailbox in self.posts.values():
            mailbox.sums = None  # else memory that is mapped stays until circles are looked for
        for host in self.hosts:
            host.close()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    op=st.sampled_from([MEAN, SUM, MAX]),
    slot=st.sampled_from(["gradient", "params"]),
)
def test_any_interleaving_gives_all_workers_of_all_hosts_the_same_bits(
    seed: int, sizes: list[int], op: str, slot: str
) -> None:
    chance, rng = Random(seed), np.random.default_rng(seed)
    hosts = Hosts(*sizes)
    ranks, buckets = range(len(hosts.workers)), range(len(BUCKETS))
    for clock in range(3):
        todo = [(rank, bucket) for rank in ranks for bucket in buckets]
        weights = {each: chance.choice([0.0, 1.0, 1.0, 3.0]) for each in todo}
        inputs = {each: rng.normal(size=BUCKETS[each[1]].num_elements) for each in todo}
        for (rank, bucket), values in inputs.items():
            (hosts.memories[rank].given if slot == "gradient" else hosts.memories[rank].params)[bucket][:] = values
        done: dict[int, list[Reduced]] = {rank: [] for rank in ranks}
        while todo or any(len(events) < len(BUCKETS) for events in done.values()):
            rank = chance.choice(ranks)
            mine = [each for each in todo if each[0] == rank]
            if mine and chance.random() < 0.5:
                todo.remove(mine[0])
                hosts.workers[rank].join(hosts.reduce(mine[0][1], clock, weights[mine[0]], slot, op))
            hosts.deliver(rank, chance)
            hosts.workers[rank].progress(done[rank].append)
        for bucket in buckets:
            told = [weights[rank, bucket] for rank in ranks]
            found = [(each.seen if slot == "gradient" else each.params)[bucket] for each in hosts.memories]
            if any(told):
                expected = reduce_arrays([inputs[rank, bucket] for rank in ranks], told, op)
                assert np.allclose(found[0], expected, rtol=1e-12, atol=1e-12)
                assert all(np.array_equal(other, found[0]) for other in found)
            else:
                assert all(np.array_equal(found[rank], inputs[rank, bucket]) for rank in ranks)
            assert {e.weight for rank in ranks for e in done[rank] if e.buffer.bucket == bucket} == {sum(told)}
    hosts.close()


def test_whom_a_worker_waits_for_is_named_by_its_rank_wherever_it_sits() -> None:
    hosts = Hosts(2, 2)
    zero, one, two, three = hosts.workers
    for worker in (zero, one, three):
        worker.join(hosts.reduce(0, 0, 1.0))
    assert three.waits_for() == [2]
    for worker in (zero, one, zero, one):
        worker.progress(lambda event: None)
    assert zero.waits_for() == [2]
    assert one.waits_for() == [2]
    hosts.hosts[1].arenas[0].words[hosts.hosts[1].arenas[0].worker_line(0) + ENDED] = 1
    with pytest.raises(Deadlock, match="waits for worker 2, whose script has ended"):
        three.check_alive()
    assert two.waits_for() == []
    hosts.close()


def test_workers_of_a_host_that_reduce_something_else_are_named_by_their_rank() -> None:
    hosts = Hosts(1, 2)
    hosts.workers[1].join(hosts.reduce(0, 0, 1.0))
    hosts.workers[2].join(hosts.reduce(0, 1, 1.0))
    with pytest.raises(IllegalAction, match="met another reduction of its bucket on worker 2, at clock 1"):
        hosts.workers[1].progress(lambda event: None)
    hosts.close()


def test_leaders_have_a_background_driver_that_rests_while_no_sum_is_under_way() -> None:
    world = Hosts(2, 1)
    assert [worker.needs_background for worker in world.workers] == [True, False, True]
    first = world.workers[0]
    assert first.may_rest()
    for rank in (0, 1):
        world.workers[rank].join(world.reduce(0, 0, 1.0))
        world.workers[rank].progress(lambda event: None)
    first.progress(lambda event: None)
    assert [worker.may_rest() for worker in world.workers] == [False, True, True]
    world.workers[2].join(world.reduce(0, 0, 1.0))
    for _ in range(3):
        for rank, worker in enumerate(world.workers):
            world.deliver(rank, Random(0))
            worker.progress(lambda event: None)
    assert first.may_rest()
    world.close()


@pytest.mark.parametrize("word", [ADDED, SPREAD])
def test_what_was_written_before_a_word_is_read_behind_a_fence(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world, seen = Hosts(2, 1), []
    monkeypatch.setattr(hosts, "fence", lambda: seen.append("fence"))
    monkeypatch.setattr(BetweenHosts, "begin", lambda *args: seen.append("begin"))
    monkeypatch.setattr(BetweenHosts, "ended", lambda *args: 1.0 if word == SPREAD else None)
    say = HostsReduce._say
    monkeypatch.setattr(
        HostsReduce, "_say", lambda self, reduction, word: [seen.append(word), say(self, reduction, word)]
    )
    for rank in (0, 1):
        world.workers[rank].join(world.reduce(0, 0, 1.0))
        world.workers[rank].progress(lambda event: None)
    world.workers[0].progress(lambda event: None)
    told = [ADDED, ADDED, "fence", "begin", *([SPREAD, "fence", DONE] if word == SPREAD else [])]
    assert seen == told
    world.close()
