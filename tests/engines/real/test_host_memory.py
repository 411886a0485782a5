"""The memories of hosts."""

import os
from pathlib import Path

import pytest
from support.processes.records import job_with

from weft.engines.real.host_memory import keep_own, make_memories, share_out, spread_values
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob

HOSTS = [0, 0, 1]


def job(rank: int, hosts: list[int], namespaces: list[int]) -> WorkerJob:
    return job_with(
        rank=rank, num_workers=3, secret=b"s" * 32, descriptors=Descriptors(-1, -1, -1, -1, [], namespaces), hosts=hosts
    )


def test_each_host_has_files_of_its_own_and_bells_for_its_workers() -> None:
    assert share_out(range(100, 114), HOSTS) == [
        Descriptors(100, 101, 102, 103, [[104, 105], [106, 107]]),
        Descriptors(108, 109, 110, 111, [[112, 113]]),
    ]


def test_namespaces_follow_the_memories_and_are_known_to_all() -> None:
    first, second = share_out(range(100, 116), HOSTS, 2)
    assert first.namespaces == second.namespaces == [114, 115]
    assert second.bells == [[112, 113]]


def test_one_host_has_everything() -> None:
    fds = make_memories(2)
    try:
        assert share_out(fds, [0, 0]) == [Descriptors.of(fds)]
        assert Descriptors.of(fds).flat() == fds
        names = [Path(f"/proc/self/fd/{fd}").readlink().name.partition(" ")[0] for fd in fds[:4]]
        assert names == ["memfd:weft-arena", "memfd:weft-rings", "memfd:weft-initial", "memfd:weft-once"]
    finally:
        for fd in fds:
            os.close(fd)


def test_a_worker_lets_go_of_what_other_hosts_share() -> None:
    mine, theirs = make_memories(1), make_memories(2)
    own = keep_own([*theirs, *mine], job(2, HOSTS, []))
    assert own == Descriptors.of(mine)
    for fd in theirs:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    for fd in mine:
        os.close(fd)


def test_where_all_are_on_one_host_a_worker_keeps_everything() -> None:
    assert keep_own(range(100, 113), job(1, [], [112, 112, 112])).namespaces == [110, 111, 112]


def test_first_values_are_spread_from_the_host_of_worker_0_to_all_others() -> None:
    fds = [make_memories(1) for _ in range(3)]
    each = [Descriptors.of(some) for some in fds]
    os.write(each[1].initial, b"x" * 3_000_000)
    spread_values(each, 1)
    assert [os.pread(one.initial, 1 << 22, 0) == b"x" * 3_000_000 for one in each] == [True, True, True]
    for fd in (fd for some in fds for fd in some):
        os.close(fd)
