"""Sums by torch.distributed: several members of a group in one process, which meet by what they are told."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from support.devices.late_streams import LateStream, PromptStream, go
from support.processes.launches import wait_until

from weft.core.actions import MAX, SUM
from weft.core.errors import TransportError
from weft.transports import torch_distributed
from weft.transports.torch_distributed import RendezvousStore, TorchSums, gloo_group, torch_sums

LOOPBACK = "127.0.0.1"


def until(done: Callable[[], bool], act: Callable[[], None] = lambda: None) -> None:
    wait_until(done, "what torch does in threads of its own", act)


@contextmanager
def members(num: int, *streams: LateStream) -> Iterator[list[TorchSums]]:
    """A group whose members have met, on the host or on devices with these streams."""
    group = [TorchSums(rank, num, LOOPBACK, *streams[rank : rank + 1], make=gloo_group) for rank in range(num)]  # type: ignore[arg-type, misc]

    def carry() -> None:
        for member in group:
            for name, value in member.notes():
                for other in group:
                    if other is not member:
                        other.hear(name, value)

    for member in group:
        assert not member.is_ready
        member.meet(lambda: None)
        member.meet(lambda: None)  # once is enough
    until(lambda: all(member.is_ready for member in group), carry)
    yield group
    for member in group:
        member.close()


@pytest.mark.parametrize(("op", "expected"), [(SUM, 6.0), (MAX, 3.0)])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_all_get_the_sum_or_the_maximum_of_what_was_given(op: str, expected: float, itemsize: int) -> None:
    with members(3) as group:
        arrays = [member.gradients(10, itemsize) for member in group]
        for rank, array in enumerate(arrays):
            assert array.itemsize == itemsize
            array[:] = rank + 1
        sums = [member.begin(array, array, 1.0, op) for member, array in zip(group, arrays, strict=True)]
        until(lambda: all(each.is_done for each in sums))
        assert all(np.array_equal(array, np.full(10, expected)) for array in arrays)


def test_nothing_is_done_before_all_have_begun_and_several_sums_are_under_way_at_once() -> None:
    with members(2) as group:
        arrays = [[np.full(4, float(place)) for place in range(3)] for _ in group]
        first = [group[0].begin(array, array, 1.0, SUM) for array in arrays[0]]
        assert not any(each.is_done for each in first)
        second = [group[1].begin(array, array, 1.0, SUM) for array in arrays[1]]
        until(lambda: all(each.is_done for each in (*first, *second)))
        assert [array[0] for array in arrays[0]] == [0.0, 2.0, 4.0]


def test_whoever_drives_is_woken_by_messages_by_the_meeting_and_by_every_sum() -> None:
    rung: list[list[int]] = [[], []]
    group = [TorchSums(rank, 2, LOOPBACK) for rank in range(2)]
    for rank, member in enumerate(group):
        member.meet(partial(rung[rank].append, 1))
    until(lambda: all(rung))
    notes = [member.notes() for member in group]
    assert [len(each) for each in notes] == [1, 1]
    group[0].hear(*notes[1][0])
    group[1].hear(*notes[0][0])
    until(lambda: all(len(each) == 2 for each in rung))
    sums = [member.begin(np.ones(2), np.ones(2), 1.0, SUM) for member in group]
    until(lambda: all(len(each) == 3 for each in rung))
    assert all(each.is_done for each in sums)


def test_a_sum_with_somebody_who_is_gone_is_an_error_that_blames_another() -> None:
    with members(2) as group:
        sum_ = group[0].begin(np.ones(1 << 16), np.ones(1 << 16), 1.0, SUM)
        group[1].close()
        with pytest.raises(TransportError, match=r"torch\.distributed could not sum: ") as told:
            until(lambda: sum_.is_done)
        assert str(told.value).endswith("\n  Another worker is gone, or cannot be reached.")


def test_processes_that_cannot_meet_say_so() -> None:
    nowhere = TorchSums(0, 2, "256.0.0.1")
    nowhere.meet(lambda: None)
    with pytest.raises(TransportError, match=r"the processes of torch\.distributed did not meet: "):
        until(lambda: nowhere.is_ready)


def test_the_group_is_not_the_scripts() -> None:
    with members(2):
        assert not dist.is_initialized()


def test_sockets_listen_on_the_given_address_only() -> None:
    def listening() -> set[str]:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {row[1] for row in rows if row[3] == "0A"}

    before = listening()
    with members(2):
        new = listening() - before
        assert new
        assert {address.partition(":")[0] for address in new} == {"0100007F"}


def test_a_meeting_place_waits_for_what_was_not_said_yet_but_not_for_ever() -> None:
    place = RendezvousStore()
    place.set("a", b"1")
    place.hear("b", b"2")
    assert (place.get("a"), place.get("b")) == (b"1", b"2")
    assert place.notes() == [("a", b"1")], "what others said is not told again"
    assert place.notes() == []
    with pytest.raises(TimeoutError, match=r"no process has set c within 0\.01 s"):
        place.wait(["c"], timedelta(milliseconds=10))


@pytest.mark.parametrize(
    ("shares", "op", "expected"),
    [((0.25, 0.75), SUM, 2.5), ((None, 1.0), SUM, 3.0), ((None, 4.0), MAX, 3.0), ((2.0, 3.0), MAX, 3.0)],
)
@pytest.mark.parametrize("itemsize", [2, 4])
def test_what_is_given_counts_by_its_share_and_stays_as_it_was(
    shares: tuple[float | None, float], op: str, expected: float, itemsize: int
) -> None:
    with members(2) as group:
        given = [np.full(5, value, f"f{itemsize}") for value in (1.0, 3.0)]
        given[0][:] = 1.0 if shares[0] else np.nan
        before = [array.copy() for array in given]
        into = [member.beside(array, 4) for member, array in zip(group, given, strict=True)]
        sums = [m.begin(g, i, share, op) for m, g, i, share in zip(group, given, into, shares, strict=True)]
        until(lambda: all(each.is_done for each in sums))
        assert all(np.array_equal(array, np.full(5, expected)) for array in into)
        assert all(np.array_equal(*each, equal_nan=True) for each in zip(given, before, strict=True))


def test_on_a_device_a_sum_is_enqueued_between_what_the_model_does_before_and_after() -> None:
    """Rules 3 and 4 of docs/architecture.md: the value is that of now, and whoever comes later finds the result,
    though nothing is done yet."""
    streams = LateStream(), LateStream()
    seen: list[float] = []
    with members(2, *streams) as group:
        for rank, (member, stream) in enumerate(zip(group, streams, strict=True)):
            given, into = member.gradients(4, 4), member.gradients(4, 4)
            stream.model(partial(given.fill_, rank + 1.0))
            sum_ = member.begin(given, into, 0.5, SUM)
            assert sum_.is_done, "Python runs ahead of the device"
            stream.model(partial(given.fill_, 99.0))
            stream.model(lambda into=into: seen.append(into[0].item()))  # type: ignore[misc]
            assert into.tolist() == given.tolist() == [0.0] * 4, "the device has done nothing yet"
        go(*streams)
    assert seen == [1.5, 1.5]


def test_what_lies_on_the_host_goes_to_the_device_and_back_and_is_done_when_it_has_come() -> None:
    streams = LateStream(), LateStream()
    with members(2, *streams) as group:
        arrays = [member.beside(np.zeros(3), 8) for member in group]
        for _ in range(2):
            for rank, array in enumerate(arrays):
                array[:] = rank + 1
            sums = [member.begin(array, array, 1.0, SUM) for member, array in zip(group, arrays, strict=True)]
            assert not any(each.is_done for each in sums)
            go(*streams)
            assert all(each.is_done for each in sums)
            assert [array.tolist() for array in arrays] == [[3.0] * 3] * 2


def test_copies_are_made_where_the_memory_is() -> None:
    stream = LateStream()
    here, there = TorchSums(0, 1, LOOPBACK), TorchSums(0, 1, LOOPBACK, stream)
    array = here.beside(np.zeros(3), 2)
    here.copy(np.ones(3, np.float32), array)
    assert array.tolist() == [1.0] * 3
    tensor = there.beside(there.gradients(3, 2), 4)
    there.copy(torch.ones(3, dtype=torch.float16), tensor)
    assert tensor.tolist() == [0.0] * 3
    go(stream)
    assert (tensor.tolist(), tensor.dtype) == ([1.0] * 3, torch.float32)


def test_on_a_gpu_it_is_nccl_whose_processes_meet_before_the_first_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Nccl:
        class Options:
            _timeout: timedelta

        def __init__(self, place: RendezvousStore, rank: int, num_workers: int, options: Options) -> None:
            made.append((type(place), rank, num_workers, options._timeout))

        def eager_connect_single_device(self, device: torch.device) -> None:
            made.append(device)

    monkeypatch.setattr(dist, "ProcessGroupNCCL", Nccl, raising=False)
    monkeypatch.setattr(torch_distributed, "CudaStream", PromptStream)
    sums = torch_sums(1, 2, LOOPBACK, "cuda:0")
    sums.meet(lambda: None)
    until(lambda: sums.is_ready)
    assert made == [(RendezvousStore, 1, 2, torch_distributed.TIMEOUT), torch.device("cuda:0")]


def test_on_the_host_it_is_gloo() -> None:
    assert torch_sums(0, 2, LOOPBACK, None)._make_group is gloo_group
