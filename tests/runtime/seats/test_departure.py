"""A worker that is sent SIGTERM: when it says so, and when its process ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from weft.runtime.seats.departure import Departure
from weft.runtime.view_messages import Departs


class Script:
    """A worker whose script makes steps; what it hears while it waits is `to_come`."""

    def __init__(self) -> None:
        self.leaves, self.has_ended = False, False
        self.said: list[Departs] = []
        self.to_come: list[Callable[[], object]] = []
        self.departure = Departure(self, self.said.append)

    def depart(self) -> None:
        self.has_ended = True

    def make(self, step: int, period: int = 1) -> None:
        """The script has made `step` steps."""
        self.departure.step_is_made(step, period, self._wait)

    def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            self.to_come.pop(0)()

    def leave(self) -> None:
        """All workers leave."""
        self.leaves = True


@pytest.fixture
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_without_a_signal_the_script_goes_on() -> None:
    script = Script()
    script.make(1)
    assert script.said == []


def test_after_its_step_it_says_that_it_departs_and_ends_when_that_is_granted() -> None:
    script = Script()
    script.departure.is_asked = True
    heard: list[bool] = []
    script.to_come = [lambda: heard.append(script.has_ended), script.departure.grant]
    script.make(3)
    assert script.said == [Departs()]
    assert (heard, script.has_ended) == ([False], True)


def test_where_workers_meet_now_and_then_it_goes_on_to_the_next_meeting() -> None:
    script = Script()
    script.departure.is_asked = True
    script.make(5, period=4)
    script.make(7, period=4)
    assert script.said == []
    script.to_come = [script.departure.grant]
    script.make(8, period=4)
    assert script.has_ended


def test_where_they_never_meet_it_leaves_after_its_step() -> None:
    script = Script()
    script.departure.is_asked = True
    script.to_come = [script.departure.grant]
    script.make(5, period=0)
    assert script.has_ended


def test_if_all_leave_it_goes_on_with_them_and_does_not_ask_again() -> None:
    script = Script()
    script.departure.is_asked = True
    script.to_come = [script.leave]
    script.make(3)
    script.make(4)
    assert (script.said, script.has_ended) == ([Departs()], False)


@pytest.mark.usefixtures("default_handler")
def test_the_signal_asks_and_in_a_forked_process_it_ends() -> None:
    script = Script()
    script.departure.watch()
    os.kill(os.getpid(), signal.SIGTERM)
    assert script.departure.is_asked
    child = os.fork()
    if not child:
        try:
            signal.pause()
        finally:
            os._exit(3)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("default_handler")
def test_a_script_s_own_handler_stays_and_other_threads_watch_nothing() -> None:
    script = Script()
    other = threading.Thread(target=script.departure.watch)
    other.start()
    other.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script.departure.watch()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
