"""The attendant drives while the script computes, and steps back while it drives."""

import threading

from hosts import Host

from weft.core.names import Bucket
from weft.runtime.attendant import Attendant
from weft.transports.bells import ATTENDANT, SCRIPT


def test_it_drives_when_its_bell_rings_and_hears_it_only_while_the_script_computes() -> None:
    host, lock, driven = Host(2, (Bucket(1),)), threading.RLock(), threading.Event()

    def drive() -> float | None:
        driven.set()
        return None

    attendant = Attendant(host.bells[0], [], lock, drive, lambda error: None)
    with lock:
        attendant.take_over()
    word = host.arenas[0].sleeping_line(0) + ATTENDANT
    assert host.arenas[1].words[word] == 1
    driven.clear()
    host.bells[1].ring(0, SCRIPT, ATTENDANT)
    assert driven.wait(5.0)
    attendant.step_back()
    assert host.arenas[1].words[word] == 0


def test_its_errors_reach_whoever_shall_end_the_process() -> None:
    host, failed, errors = Host(1, (Bucket(1),)), threading.Event(), []

    def fail(error: BaseException) -> None:
        errors.append(error)
        failed.set()

    def drive() -> float | None:
        raise ValueError("a bug")

    Attendant(host.bells[0], [], threading.RLock(), drive, fail)
    assert failed.wait(5.0)
    assert [str(error) for error in errors] == ["a bug"]
