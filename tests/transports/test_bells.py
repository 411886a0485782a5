"""Bells: how a worker of a host wakes another one that sleeps, and lets it be when it does not."""

import os
import select
from collections.abc import Iterator

import pytest

from weft.transports.bells import BACKGROUND, NUM_BELLS, SCRIPT, Bells, fence

NUM_WORKERS = 3


@pytest.fixture
def bells() -> Iterator[list[Bells]]:
    """Each worker's view of all bells; their words lie a cache line apart."""
    eventfds = [[os.eventfd(0, os.EFD_NONBLOCK) for _ in range(NUM_BELLS)] for _ in range(NUM_WORKERS)]
    words = memoryview(bytearray(8 * 8 * NUM_WORKERS)).cast("q")
    places = [8 * worker for worker in range(NUM_WORKERS)]
    yield [Bells(me, words, places, eventfds) for me in range(NUM_WORKERS)]
    for eventfd in (each for pair in eventfds for each in pair):
        os.close(eventfd)


def rung(bells: list[Bells]) -> set[tuple[int, int]]:
    """Who would wake up: worker and bell."""
    return {
        (worker, bell)
        for worker, each in enumerate(bells)
        for bell in (SCRIPT, BACKGROUND)
        if select.select([each.fileno(bell)], [], [], 0)[0]
    }


def test_who_does_not_sleep_is_let_be(bells: list[Bells]) -> None:
    bells[0].ring(1, SCRIPT, BACKGROUND)
    bells[0].ring_scripts()
    assert rung(bells) == set()


def test_only_the_bells_are_rung_that_somebody_listens_to(bells: list[Bells]) -> None:
    bells[1].listen(BACKGROUND)
    bells[2].listen(SCRIPT)
    bells[0].ring(1, SCRIPT, BACKGROUND)
    assert rung(bells) == {(1, BACKGROUND)}


def test_all_scripts_that_wait_are_woken_but_ones_own(bells: list[Bells]) -> None:
    for each in bells:
        each.listen(SCRIPT)
        each.listen(BACKGROUND)
    bells[1].ring_scripts()
    assert rung(bells) == {(0, SCRIPT), (2, SCRIPT)}


def test_who_has_stopped_listening_is_not_rung(bells: list[Bells]) -> None:
    bells[1].listen(SCRIPT)
    bells[1].listen(SCRIPT, enabled=False)
    bells[0].ring(1, SCRIPT)
    assert rung(bells) == set()


def test_rings_are_forgotten_however_many_there_were(bells: list[Bells]) -> None:
    bells[1].listen(SCRIPT)
    for _ in range(3):
        bells[0].ring(1, SCRIPT)
    assert rung(bells) == {(1, SCRIPT)}
    bells[1].silence(SCRIPT)
    assert rung(bells) == set()
    bells[1].silence(SCRIPT)
    assert rung(bells) == set(), "silence without a ring waits for nothing"


def test_a_fence_can_be_passed_any_number_of_times() -> None:
    assert [fence() for _ in range(3)] == [None] * 3
