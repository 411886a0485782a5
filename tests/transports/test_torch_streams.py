"""Streams of a device: sums lie between what the model's stream was told before and what it is told after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from weft.transports.torch_streams import CudaStream


class Fake:
    """A stream or an event that says what it is told."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name = name
        self._told = told

    def wait_stream(self, other: "Fake") -> None:
        self._told.append(f"{self.name} waits for {other.name}")

    def record(self, stream: "Fake") -> None:
        self._told.append(f"mark in {stream.name}")

    def query(self) -> bool:
        return "mark in sums" in self._told


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a GPU would have been told."""
    said: list[str] = []

    def within(what: str) -> Callable[[Any], Any]:
        @contextmanager
        def enter(named: Any) -> Iterator[None]:
            said.append(f"{what} {getattr(named, 'name', named)}")
            yield

        return enter

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Fake("model", said))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Fake("sums", said))
    monkeypatch.setattr(torch.cuda, "Event", lambda: Fake("event", said))
    monkeypatch.setattr(torch.cuda, "device", within("on"))
    monkeypatch.setattr(torch.cuda, "stream", within("in"))
    return said


def test_a_sum_begins_after_all_that_the_model_was_told_and_the_model_goes_on_after_it(told: list[str]) -> None:
    stream = CudaStream(torch.device("cuda:1"))
    is_done = stream.run(lambda: told.append("work"))
    assert told == [
        "sums waits for model",
        "on cuda:1",
        "in sums",
        "work",
        "model waits for sums",
        "mark in sums",
    ]
    assert is_done()
    assert stream.device == torch.device("cuda:1")
