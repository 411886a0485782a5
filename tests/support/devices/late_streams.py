"""Streams that stand in for a GPU's: one does what it is told when the test lets it, one does everything at once."""

from collections import deque
from collections.abc import Callable
from threading import Event, Thread

import torch

CPU = torch.device("cpu")


class LateStream:
    """The model's work and the sums, in the order in which they were enqueued; nothing is done before `go`."""

    def __init__(self) -> None:
        self.device = CPU
        self._queue: deque[tuple[Callable[[], object], Event]] = deque()

    def run(self, work: Callable[[], None]) -> Callable[[], bool]:
        done = Event()
        self._queue.append((work, done))
        return done.is_set

    def model(self, work: Callable[[], object]) -> None:
        """What the model's own stream is told."""
        self._queue.append((work, Event()))

    def _do_all(self) -> None:
        while self._queue:
            work, done = self._queue.popleft()
            work()
            done.set()


def go(*streams: LateStream) -> None:
    """Let devices do, beside each other, all that they were told."""
    threads = [Thread(target=stream._do_all) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a stream does not come to its end"


class PromptStream:
    """Does everything at once, so that a model on the CPU may be taken for one elsewhere."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def run(self, work: Callable[[], None]) -> Callable[[], bool]:
        work()
        return lambda: True
