"""Which lane a test is in: its markers follow from what it can reach, and a guard fails a test whose markers are wrong.

A test reaches the functions and classes that it, its fixtures and its parameters name, and what those name in turn, as
far as they stand below tests/. A test that reaches one of STARTERS is given its marker. What starts processes in ways
that names do not show (`weft_command("run", ...)`) is marked by hand. The guard checks both wherever tests are
chosen by markers, as `make quick` does: it hears of every process, namespace and browser that a test starts; what the
test's markers do not announce is refused, and the test fails.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import _lru_cache_wrapper, cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PROCESSES, ROOT, BROWSER, RAY = "processes", "root", "browser", "ray"
SOME = {PROCESSES, ROOT, BROWSER, RAY}
"""Each of these starts processes."""

STARTERS = {
    "posix.fork": PROCESSES,
    "subprocess.Popen": PROCESSES,
    "subprocess.run": PROCESSES,
    "subprocess.check_output": PROCESSES,
    "weft.bench.group.Group": PROCESSES,
    "weft.engines.local.forked_workers.ForkServer": PROCESSES,
    "weft.engines.local.launcher.run_local": PROCESSES,
    "weft.engines.real.child_processes.start": PROCESSES,
    "weft.engines.real.child_processes.start_apart": PROCESSES,
    "weft.engines.netem.namespaces.enter": ROOT,
    "weft.engines.netem.namespaces.make_namespace": ROOT,
    "weft.engines.netem.network.SlowNetwork": ROOT,
    "weft.engines.ray.cluster.RayCluster": RAY,
    "support.processes.ray_nodes.ray_nodes": RAY,
    "support.ui.browser.browser": BROWSER,
}
"""By module and name: what a test that gets at it needs."""

STARTS = {"os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"}
"""The interpreter's own words for a start (docs.python.org/3/library/audit_events.html)."""
HEARD = STARTS | {"ctypes.dlsym"}


def markers_of(item: pytest.Function) -> frozenset[str]:
    """The markers of a test, by what it, its fixtures and its parameters reach."""
    fixtures = [fixture.func for given in item._fixtureinfo.name2fixturedefs.values() for fixture in given]
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return frozenset[str]().union(*map(_reached, _callables([item.function, fixtures, list(params)])))


@cache
def _reached(start: Any) -> frozenset[str]:
    found, seen, waiting = set(), {start}, [start]
    while waiting:
        thing = waiting.pop()
        marker = STARTERS.get(f"{getattr(thing, '__module__', '')}.{thing.__qualname__}")
        if marker is not None:
            found.add(marker)
            continue
        named = _named_by(thing) - seen
        seen |= named
        waiting += named
    return frozenset(found)


@cache
def _named_by(thing: Any) -> frozenset[Any]:
    """The functions and classes that a function or class names; none for what does not stand below tests/."""
    return frozenset(_callables(_values_in(thing)))


def _callables(things: Iterable[Any]) -> Iterator[Any]:
    """Functions and classes among things and in collections among them."""
    for thing in things:
        if isinstance(thing, partial):
            yield from _callables([thing.func, *thing.args])
        elif isinstance(thing, _lru_cache_wrapper):
            yield from _callables([thing.__wrapped__])
        elif isinstance(thing, property):
            yield from _callables([thing.fget])
        elif isinstance(thing, staticmethod | classmethod):
            yield from _callables([thing.__func__])
        elif isinstance(thing, list | tuple | set | frozenset):
            yield from _callables(thing)
        elif isinstance(thing, dict):
            yield from _callables(thing.values())
        elif isinstance(thing, FunctionType | BuiltinFunctionType | type):
            yield thing


def _values_in(thing: Any) -> Iterator[Any]:
    """What a function's code or a class's methods name."""
    if isinstance(thing, type):
        if _is_ours(getattr(sys.modules.get(thing.__module__), "__file__", None)):
            yield from vars(thing).values()
        return
    inner = getattr(thing, "hypothesis", None)  # what `@given` wraps is not where others put it
    function = inner.inner_test if inner is not None else inspect.unwrap(thing)
    if not isinstance(function, FunctionType) or not _is_ours(function.__code__.co_filename):
        return
    names = set(_names(function.__code__))
    for value in [function.__globals__.get(name) for name in names]:
        if isinstance(value, ModuleType):
            yield from (vars(value).get(name) for name in names)
        else:
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def _is_ours(file: str | None) -> bool:
    return file is not None and file.startswith(f"{TESTS}/")


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


class Guard:
    """Refuses a test what its markers do not announce. An audit hook cannot be taken away: there is one, for ever."""

    def __init__(self) -> None:
        self.markers: set[str] | None = None
        """Those of the test that runs; None: between tests, or where all tests run."""
        self.refused: list[str] = []
        """Why; kept, for who is refused may catch the error."""

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What the interpreter tells before it does something."""
        if event not in HEARD or self.markers is None:
            return
        needed = _needed(event, arguments)
        if needed and not needed & self.markers:
            text = f"it starts something ({event}) but has none of the markers {sorted(needed)}: see support/lanes.py"
            self.refused.append(text)
            raise AssertionError(text)

    def check(self) -> None:
        """Fails if something was refused since the last time."""
        refused, self.refused = self.refused, []
        assert not refused, refused[0]


def _needed(event: str, arguments: tuple[Any, ...]) -> set[str]:
    """The markers of which a test must have one."""
    if event == "ctypes.dlsym":
        return {ROOT} if arguments[1] in ("unshare", "setns") else set()
    if event == "subprocess.Popen":
        command = [str(word) for word in arguments[1]]
        if "--remote-debugging-pipe" in command:
            return {BROWSER}
        if {"weft.engines.ray.bridge", "support.processes.ray_nodes"} & set(command):
            return {RAY}
    return SOME


GUARD = Guard()
"""The one that tests/conftest.py lets hear."""
