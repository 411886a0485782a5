"""One thread for each process of tests, screens that are alike, and lanes: the markers of tests, and their guard."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.lanes import GUARD, markers_of

# torch reads it when it is imported: models here are small, and spinning threads of two test processes would fight
os.environ.setdefault("OMP_NUM_THREADS", "1")
# the processes of parallel tests are given one, and tables would follow it
os.environ.pop("COLUMNS", None)

# a shell starts what it runs in the background with SIGINT ignored; processes of tests, which inherit that, are sent it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GARBAGE_OBJECTS = 100_000
"""So many new ones before garbage is looked for."""

sys.addaudithook(GUARD.hear)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported and collected stays until the end: to look through it for garbage, again and again, is slow."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE_OBJECTS, 10, 10)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Parallel tests (`-n`): who is given what."""
    from support.longest_first import LongestFirst  # not there without pytest-xdist

    return LongestFirst(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its markers, before `-m` chooses by them."""
    for item in items:
        assert isinstance(item, pytest.Function)
        for marker in markers_of(item):
            item.add_marker(marker)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """In a lane (`-m`), a test and its fixtures may start only what the markers of the test say."""
    GUARD.refused.clear()
    GUARD.markers = {marker.name for marker in item.iter_markers()} if item.config.option.markexpr else None
    try:
        return (yield)
    finally:
        GUARD.markers = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that was refused something fails, even if it never noticed."""
    try:
        return (yield)
    finally:
        GUARD.check()
