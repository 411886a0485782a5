"""`weft.once` on a real worker."""

from typing import Any

import pytest

from weft.runtime.messages import Message, OnceAnswer, OnceAsked, OnceLoaded
from weft.runtime.seats.once import Once


class Shelf:
    """Shares text."""

    def store(self, fd: int, start: int, value: Any) -> tuple[bytes | None, int]:
        return value.encode(), start + len(value)

    def load(self, fd: int, form: bytes) -> Any:
        return f"{form.decode()} from {fd}"


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
