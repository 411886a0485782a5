"""The messages between workers and their engine: each is told from the others by its tag, and comes as it was sent."""

from typing import get_args

import msgspec
import pytest
from support.processes.records import job_with, status_with

from weft.runtime.messages import (
    Conclude,
    Concluded,
    Failed,
    Halt,
    Message,
    PortionRequested,
    PortionTold,
    ScriptCompleted,
    ScriptJoined,
    Welcome,
    WorkerJob,
)

STATUS = status_with(time_s=1.0, step=2, samples=3.0)
MESSAGES = [
    ScriptJoined(["weight float32 (2, 2)"], 16, None, 4711),
    Welcome("allreduce", [1, 2]),
    PortionRequested(0, 60_000, 10),
    PortionTold(None),
    Halt(),
    ScriptCompleted(STATUS),
    Conclude([0], [1], best=1),
    Concluded(0.5, None, {0: 3}),
    Failed("ValueError", "no", "Traceback ...", 3, "computes"),
]


def job(rank: int, hosts: list[int], num_workers: int = 4) -> WorkerJob:
    """What a worker is told, where only the hosts matter."""
    return job_with(rank=rank, num_workers=num_workers, hosts=hosts)


@pytest.mark.parametrize("message", [*MESSAGES, job(1, [0, 0, 1, 1])], ids=lambda message: type(message).__name__)
def test_a_message_comes_as_it_was_sent(message: Message) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message) == message


def test_every_message_has_a_tag_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(Message)]
    assert len(tags) > 30
    assert sorted(tags) == sorted(set(tags))


def test_a_worker_knows_who_is_on_its_host_and_its_own_number_among_them() -> None:
    told = [job(rank, [0, 1, 0, 1]) for rank in range(4)]
    assert [one.on_host for one in told] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert [one.local_rank for one in told] == [0, 0, 1, 1]


def test_without_hosts_all_workers_are_on_one() -> None:
    assert job(2, []).on_host == [0, 1, 2, 3]
    assert job(2, []).local_rank == 2
