"""Sums by torch.distributed: several members of a group in one process, which meet by what they are told."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist
from launches import wait_until

from weft.core.actions import MAX, SUM
from weft.core.errors import TransportError
from weft.transports.torch_distributed import MeetingPlace, TorchSums

LOOPBACK = "127.0.0.1"


def until(done: Callable[[], bool], act: Callable[[], None] = lambda: None) -> None:
    wait_until(done, "what torch does in threads of its own", act)


@contextmanager
def members(num: int) -> Iterator[list[TorchSums]]:
    """A group whose members have met."""
    group = [TorchSums(rank, num, LOOPBACK) for rank in range(num)]

    def carry() -> None:
        for member in group:
            for name, value in member.letters():
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
def test_all_get_the_sum_or_the_maximum_where_their_contribution_was(op: str, expected: float, itemsize: int) -> None:
    with members(3) as group:
        arrays = [member.allocate(10, itemsize) for member in group]
        for rank, array in enumerate(arrays):
            assert array.itemsize == itemsize
            array[:] = rank + 1
        sums = [member.begin(array, op) for member, array in zip(group, arrays, strict=True)]
        until(lambda: all(each.is_done for each in sums))
        assert all(np.array_equal(array, np.full(10, expected)) for array in arrays)


def test_nothing_is_done_before_all_have_begun_and_several_sums_are_under_way_at_once() -> None:
    with members(2) as group:
        arrays = [[np.full(4, float(place)) for place in range(3)] for _ in group]
        first = [group[0].begin(array, SUM) for array in arrays[0]]
        assert not any(each.is_done for each in first)
        second = [group[1].begin(array, SUM) for array in arrays[1]]
        until(lambda: all(each.is_done for each in (*first, *second)))
        assert [array[0] for array in arrays[0]] == [0.0, 2.0, 4.0]


def test_whoever_drives_is_woken_by_letters_by_the_meeting_and_by_every_sum() -> None:
    rung: list[list[int]] = [[], []]
    group = [TorchSums(rank, 2, LOOPBACK) for rank in range(2)]
    for rank, member in enumerate(group):
        member.meet(lambda rank=rank: rung[rank].append(1))
    until(lambda: all(rung))
    letters = [member.letters() for member in group]
    assert [len(each) for each in letters] == [1, 1]
    group[0].hear(*letters[1][0])
    group[1].hear(*letters[0][0])
    until(lambda: all(len(each) == 2 for each in rung))
    sums = [member.begin(np.ones(2), SUM) for member in group]
    until(lambda: all(len(each) == 3 for each in rung))
    assert all(each.is_done for each in sums)


def test_a_sum_with_somebody_who_is_gone_is_an_error_that_blames_another() -> None:
    with members(2) as group:
        sum_ = group[0].begin(np.ones(1 << 16), SUM)
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
    place = MeetingPlace()
    place.set("a", b"1")
    place.hear("b", b"2")
    assert (place.get("a"), place.get("b")) == (b"1", b"2")
    assert place.letters() == [("a", b"1")], "what others said is not told again"
    assert place.letters() == []
    with pytest.raises(TimeoutError, match=r"nobody said c within 0\.01 s"):
        place.wait(["c"], timedelta(milliseconds=10))
