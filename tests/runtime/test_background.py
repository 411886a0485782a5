"""The background driver drives while the script computes, and steps back while it drives."""

import os
import select
import threading

import pytest
from support.processes.one_host import Host

from weft.core.names import Bucket
from weft.runtime.background import BackgroundDriver
from weft.transports.bells import BACKGROUND, SCRIPT


def test_it_drives_when_its_bell_rings_and_hears_it_only_while_the_script_computes() -> None:
    host, lock, driven = Host(2, (Bucket(1),)), threading.RLock(), threading.Event()

    def drive() -> float | None:
        driven.set()
        return None

    background = BackgroundDriver(host.bells[0], [], lock, drive, lambda error: None)
    with lock:
        background.take_over()
    word = host.arenas[0].sleeping_line(0) + BACKGROUND
    assert host.arenas[1].words[word] == 1
    driven.clear()
    host.bells[1].ring(0, SCRIPT, BACKGROUND)
    assert driven.wait(5.0)
    background.step_back()
    assert host.arenas[1].words[word] == 0


def test_its_errors_reach_whoever_shall_end_the_process() -> None:
    host, failed, errors = Host(1, (Bucket(1),)), threading.Event(), []

    def fail(error: BaseException) -> None:
        errors.append(error)
        failed.set()

    def drive() -> float | None:
        raise ValueError("a bug")

    BackgroundDriver(host.bells[0], [], threading.RLock(), drive, fail)
    assert failed.wait(5.0)
    assert [str(error) for error in errors] == ["a bug"]


def test_it_rests_where_it_may_and_looks_after_what_the_script_leaves_undone() -> None:
    host, lock, driven, rests = Host(1, (Bucket(1),)), threading.RLock(), threading.Event(), threading.Event()
    readable, writable = os.pipe()

    def drive() -> float | None:
        driven.set()
        return None

    rests.set()
    background = BackgroundDriver(host.bells[0], [readable], lock, drive, lambda error: None, rests.is_set)
    assert driven.wait(5.0)
    with lock:
        driven.clear()
        background.take_over()
        background.look_after()
    os.write(writable, b"x")
    assert not driven.wait(0.3), "it neither hears descriptors nor looks now and then"
    with lock:
        rests.clear()
        background.look_after()
    for _ in range(3):  # the descriptor has something all the time
        assert driven.wait(5.0)
        driven.clear()
    rests.set()


def test_at_rest_it_still_hears_who_knocks_at_its_doors() -> None:
    host, lock, driven = Host(1, (Bucket(1),)), threading.RLock(), threading.Event()
    (readable, writable), (door, knocker) = os.pipe(), os.pipe()

    def drive() -> float | None:
        driven.set()
        return None

    BackgroundDriver(
        host.bells[0],
        [readable, door],
        lock,
        drive,
        lambda error: None,
        lambda: not select.select([door], [], [], 0)[0],
        [door],
    )
    os.write(writable, b"x")
    assert driven.wait(5.0)
    with lock:
        driven.clear()
    assert not driven.wait(0.3), "what it does not have to answer"
    os.write(knocker, b"x")
    for _ in range(3):  # a stranger that stands in the door must not stand there for ever
        assert driven.wait(5.0)
        driven.clear()
    os.read(door, 1)


def test_who_never_rests_is_not_woken_at_every_step() -> None:
    host = Host(1, (Bucket(1),))
    background = BackgroundDriver(host.bells[0], [], threading.RLock(), lambda: None, lambda error: None)
    background.take_over()
    background.look_after()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(host.bells[0].fileno(BACKGROUND))
