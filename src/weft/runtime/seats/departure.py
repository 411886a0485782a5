"""A worker that is sent SIGTERM, as by a machine that is about to be taken away, leaves after its step.

| state  | entered by                        | then                                                               |
|--------|-----------------------------------|--------------------------------------------------------------------|
| off    |                                   | its script goes on                                                 |
| asked  | SIGTERM                           | its script goes on to the step's end, or to its strategy's meeting |
| leaves | that step is made: `Departs`      | its script stands still; it freezes when all others do             |
| gone   | `Depart`: others go on without it | its process ends with 0                                            |
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Protocol

from weft.runtime.view_messages import Departs


class Departing(Protocol):
    """What the seat of a worker offers its departure."""

    leaves: bool
    """All workers leave: the run is being stopped."""

    def depart(self) -> None:
        """End this process."""


class Departure:
    """One worker's way out of a run that goes on."""

    def __init__(self, seat: Departing, send: Callable[[Departs], object]) -> None:
        self._seat = seat
        self._send = send
        self.is_asked = False
        self._is_granted = False
        self._mask: set[Any] = set()
        """The signals that the forking thread had blocked before it forked."""

    def watch(self) -> None:
        """Take SIGTERM from now on, unless the script has a handler of its own; in processes that it forks, it ends."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._ask)
            os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._unwatch)

    def _ask(self, number: int, frame: Any) -> None:
        self.is_asked = True

    def _hold(self) -> None:
        """This process forks: a SIGTERM to the child waits until the child's handler is the default again."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _release(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _unwatch(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._ask:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._release()

    def grant(self) -> None:
        """The others go on without this worker."""
        self._is_granted = True

    def step_is_made(self, step: int, period: int, wait: Callable[[Callable[[], bool]], None]) -> None:
        """The script has made `step` steps. If it is to leave, and the workers have just met (every `period` steps; 0:
        they do not meet), `wait` until the others let this process end; returns if all leave instead."""
        if not self.is_asked or (period and step % period):
            return
        self.is_asked = False
        self._send(Departs())
        wait(lambda: self._is_granted or self._seat.leaves)
        if self._is_granted:
            self._seat.depart()
