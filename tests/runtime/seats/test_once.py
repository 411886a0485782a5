"""`weft.once` on a real worker."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from weft.adapters import sharing
from weft.data.share_records import HandedShares
from weft.runtime.messages import Message, OnceAnswer, OnceAsked, OnceLoaded
from weft.runtime.seats.once import PIECE_BYTES, Once
from weft.runtime.view_messages import HandedOver, PieceAsked


class Shelf:
    """Shares text."""

    def store(self, fd: int, start: int, value: Any) -> tuple[bytes | None, int]:
        return value.encode(), start + len(value)

    def load(self, fd: int, form: bytes) -> Any:
        return f"{form.decode()} from {fd}"

    def free(self, fd: int, start: int, stop: int) -> None:
        raise AssertionError("values of weft.once stay")

    def append(self, fd: int, start: int, value: Any) -> tuple[bytes, int, int]:
        raise AssertionError("nothing is handed over")


def once(answer: OnceAnswer) -> tuple[Once, list[Message]]:
    said: list[Message] = []
    return Once(7, Shelf(), said.append, lambda kind: answer), said


def test_who_is_to_load_does_and_tells_where_it_lies() -> None:
    loader, said = once(OnceAnswer(64, None))
    assert loader.get("data", lambda: "text") == "text"
    assert said == [OnceAsked("0: data"), OnceLoaded("0: data", b"text", 68)]


def test_who_is_not_to_load_finds_it_in_memory_or_loads_what_cannot_be_shared() -> None:
    loader, _ = once(OnceAnswer(0, b"text"))
    assert loader.get("data", lambda: 1 / 0) == "text from 7"
    loader, said = once(OnceAnswer(0, b""))
    assert [loader.get("data", lambda: 7), loader.get("data", lambda: 8)] == [7, 8]
    assert said == [OnceAsked("0: data"), OnceAsked("1: data")]


def test_a_loader_that_raises_lets_the_others_load_for_themselves() -> None:
    loader, said = once(OnceAnswer(64, None))
    with pytest.raises(ZeroDivisionError):
        loader.get("data", lambda: 1 / 0)
    assert said[1:] == [OnceLoaded("0: data", b"", 64)]


class Lists:
    """Shares lists: all who load one get the same."""

    def __init__(self) -> None:
        self.lists: list[list[Any]] = []
        self.freed: list[tuple[int, int, int]] = []

    def store(self, fd: int, start: int, value: Any) -> tuple[bytes | None, int]:
        if value is None:
            return b"", start
        self.lists.append(value)
        return b"%d" % (len(self.lists) - 1), start + 100

    def append(self, fd: int, start: int, value: Any) -> tuple[bytes, int, int]:
        begin = max(start, 640)
        form, stop = self.store(fd, begin, value)
        return form or b"", begin, stop

    def load(self, fd: int, form: bytes) -> Any:
        return self.lists[int(form)]

    def free(self, fd: int, start: int, stop: int) -> None:
        self.freed.append((fd, start, stop))


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("once")
    os.truncate(fd, 640)
    yield fd
    os.close(fd)


def refuse(*said: object) -> Any:
    raise AssertionError(f"the engine is not asked, but was told {said}")


def test_what_is_handed_over_lies_behind_all_that_was_shared_before_and_the_engine_is_not_asked(file: int) -> None:
    assert Once(file, Lists(), refuse, refuse).hand_over(["steps"]) == (b"0", 640, 740)


def test_what_cannot_be_shared_has_no_form_and_no_memory(file: int) -> None:
    assert Once(file, Lists(), refuse, refuse).hand_over(None) == (b"", 640, 640)


def test_who_takes_over_has_a_copy_which_stays_when_the_memory_is_freed(file: int) -> None:
    lists = Lists()
    once = Once(file, lists, refuse, refuse)
    form, start, stop = once.hand_over([["momentum"]])
    taken = once.take_over(form)
    lists.lists[0][0][0] = "freed"
    assert taken == [["momentum"]]
    once.free(start, stop)
    assert lists.freed == [(file, 640, 740)]


def test_arrays_that_are_taken_over_stay_when_their_pages_are_freed(file: int) -> None:
    once = Once(file, sharing, refuse, refuse)
    values = np.arange(4096.0)
    form, start, stop = once.hand_over({"momentum": values})
    taken, mapped = once.take_over(form), sharing.load(file, form)
    once.free(start, stop)
    assert np.array_equal(taken["momentum"], values)
    assert not np.array_equal(mapped["momentum"], values), "what was only mapped is gone"


def test_what_was_handed_over_on_another_host_is_brought_in_pieces(file: int) -> None:
    values, small = np.arange(20_000.0), np.arange(3)
    sponsor = Once(file, sharing, refuse, refuse)
    form, start, stop = sponsor.hand_over({"momentum": values, "step": small, "lr": 0.1})
    handed = HandedOver(2, HandedShares(0, 1, 4, [0, 1], [], {}, {}, 0, 0), 3, 1, 2, form, 1, start, stop)
    asked: list[PieceAsked] = []
    newcomer = Once(-1, sharing, asked.append, lambda kind: sponsor.piece(asked[-1]))  # type: ignore[arg-type]
    taken = newcomer.bring(handed, 4)
    assert np.array_equal(taken["momentum"], values)
    assert np.array_equal(taken["step"], small)
    assert taken["lr"] == 0.1
    assert len(asked) == 3
    assert {(each.sponsor, each.newcomer) for each in asked} == {(1, 4)}
    assert (asked[0].start, asked[-1].stop) == (start, stop)
    assert all(each.stop - each.start <= PIECE_BYTES for each in asked)


def test_what_has_no_arrays_is_brought_without_asking(file: int) -> None:
    form, start, stop = Once(file, sharing, refuse, refuse).hand_over({"lr": 0.1})
    handed = HandedOver(2, HandedShares(0, 1, 4, [0, 1], [], {}, {}, 0, 0), 3, 1, 2, form, 1, start, stop)
    assert Once(-1, sharing, refuse, refuse).bring(handed, 4) == {"lr": 0.1}
