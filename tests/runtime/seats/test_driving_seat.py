"""A seat whose worker drives: who drives while the script waits, and what is heard and done meanwhile."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from support.processes.records import job_with

from weft.adapters import sharing
from weft.runtime.channel import Channel
from weft.runtime.messages import Order
from weft.runtime.seats.driving_seat import DrivingSeat
from weft.runtime.seats.engine_seat import OTHERS_TO_JOIN


class Driver:
    """A driver that has something to do for its first `num_turns` turns."""

    def __init__(self, did: list[str], num_turns: int = 0, num_nodes: int = 1) -> None:
        self._did = did
        self.num_turns = num_turns
        self.nodes = dict.fromkeys(range(num_nodes))
        self.next_due_s: float | None = 0.25

    def progress(self) -> bool:
        self._did.append("drives")
        self.num_turns -= 1
        return self.num_turns >= 0

    hurry = progress

    def may_move(self) -> bool:
        return True


class Background:
    """A background driver that notes what it is told."""

    def __init__(self, did: list[str]) -> None:
        self._did = did

    def step_back(self) -> None:
        self._did.append("steps back")

    def take_over(self) -> None:
        self._did.append("takes over")

    def look_after(self) -> None:
        self._did.append("looks after")


class Desk:
    """A seat, the engine's end of its channel, and what its drivers did."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        self.ends = (mine, theirs)
        self.engine = Channel(theirs)
        self.seat: Any = DrivingSeat(job_with(), Channel(mine), sharing)
        self.did: list[str] = []

    def train(self, num_turns: int = 0, num_nodes: int = 1) -> Any:
        """The worker is laid out; its driver has something to do for so many turns."""
        driver = Driver(self.did, num_turns, num_nodes)
        alive, waits = (lambda: self.did.append("looks whether all live")), (lambda: "worker 1's gradient")
        runtime = SimpleNamespace(driver=driver, check_alive=alive, waiting_for=waits)
        self.seat._runtime = self.seat._awaited = runtime
        return self.seat


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    for end in desk.ends:
        end.close()


def test_before_training_a_waiting_script_hears_the_engine_and_drives_nothing(desk: Desk) -> None:
    desk.engine.send(Order([1, 0]))
    assert desk.seat._expect(Order) == Order([1, 0])
    assert desk.seat.waiting_for() == OTHERS_TO_JOIN


def test_a_waiting_script_drives_until_what_it_waits_for_has_come(desk: Desk) -> None:
    seat = desk.train(num_turns=5)
    seat._waits_for = "worker 1's gradient"
    seat._wait(lambda: len(desk.did) == 3)
    assert desk.did == ["drives"] * 3
    assert seat._waits_for is None, "it waits for nothing any more"


def test_a_script_that_need_not_wait_does_not_drive(desk: Desk) -> None:
    desk.train(num_turns=5)._wait(lambda: True)
    assert desk.did == []


def test_a_script_that_waits_long_hears_the_engine_and_looks_whether_the_others_live(desk: Desk) -> None:
    seat = desk.train()
    desk.engine.send(Order([0]))
    seat._wait(lambda: bool(seat._inbox))
    assert seat._inbox == [Order([0])]
    assert desk.did[-1] == "looks whether all live"
    assert set(desk.did) == {"drives", "looks whether all live"}
    assert seat.waiting_for() == "worker 1's gradient"


def test_who_waits_for_words_of_the_arena_does_not_drive_for_an_action_is_under_way(desk: Desk) -> None:
    words = [False, False, True]
    desk.train(num_turns=5)._wait_words(lambda: words[0] or words.pop(0))
    assert (words, desk.did) == ([True], [])


def test_the_thread_that_waits_holds_the_lock(desk: Desk) -> None:
    seat = desk.train()
    got: list[bool] = []

    def is_held() -> bool:
        other = threading.Thread(target=lambda: got.append(seat._lock.acquire(blocking=False)))
        other.start()
        other.join()
        return True

    seat._wait(is_held)
    assert got == [False]


def test_while_the_scripts_thread_drives_the_background_steps_back_and_takes_over_afterwards(desk: Desk) -> None:
    seat = desk.train(num_nodes=2)
    seat._background = Background(desk.did)
    with seat._driving() as runtime:
        assert runtime is seat._runtime
        desk.did.append("script")
    assert desk.did == ["steps back", "script", "takes over", "drives", "looks after"]


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_whoever_drives_holds_the_lock_and_gives_it_back_even_after_an_error(desk: Desk, num_nodes: int) -> None:
    seat, got = desk.train(num_nodes=num_nodes), list[bool]()

    def try_lock() -> None:
        other = threading.Thread(target=lambda: got.append(seat._lock.acquire(timeout=0)))
        other.start()
        other.join()

    with suppress(ArithmeticError), seat._driving():
        try_lock()
        raise ArithmeticError
    try_lock()
    assert got == [False, True]


def test_a_turn_of_the_background_hears_the_engine_drives_and_says_when_a_timer_is_due(desk: Desk) -> None:
    seat = desk.train()
    desk.engine.send(Order([0]))
    assert seat._drive_for_script() == 0.25
    assert (seat._inbox, desk.did) == ([Order([0])], ["drives"])
