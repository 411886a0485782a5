"""`weft.once` on a real worker."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from weft.adapters import sharing
from weft.runtime.messages import Message, OnceAnswer, OnceAsked, OnceLoaded
from weft.runtime.seats.once import Once


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
