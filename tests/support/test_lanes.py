"""Markers of tests: that they are found, and that wrong ones fail."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.lanes import GUARD, STARTERS, Guard, markers_of
from support.network.namespaces import inside
from support.processes.launches import TRAIN, launched
from support.processes.ray_nodes import Nodes, ray_nodes
from support.processes.real import Heard, real
from support.ui.browser import browser


def quiet() -> object:
    return TRAIN, Heard, Nodes


def by_a_function_inside() -> object:
    return lambda: real


def by_a_module() -> object:
    return subprocess.run


@cache
def cached() -> object:
    return real


def by_a_cache() -> object:
    return cached


@contextmanager
def by_a_context() -> Iterator[object]:
    yield launched


@given(st.integers())
def by_a_property(number: int) -> None:
    assert by_a_module() is not number


class ByAMethod:
    """Starts something if it is told to."""

    @property
    def all(self) -> object:
        return by_a_function_inside()


def by_a_class() -> object:
    return ByAMethod


def in_a_browser() -> object:
    return browser


def on_ray() -> object:
    return ray_nodes


def in_namespaces() -> object:
    return inside


def item(function: Callable[..., Any], *fixtures: Callable[..., Any], **params: Any) -> Any:
    """As much of a collected test as its markers follow from."""
    given_by = {str(number): [SimpleNamespace(func=fixture)] for number, fixture in enumerate(fixtures)}
    fixture_info, callspec = SimpleNamespace(name2fixturedefs=given_by), SimpleNamespace(params=params)
    return SimpleNamespace(function=function, _fixtureinfo=fixture_info, callspec=callspec)


@pytest.mark.parametrize(
    "function",
    [by_a_function_inside, by_a_module, by_a_cache, by_a_context, by_a_property, by_a_class],
    ids=lambda it: it.__name__,
)
def test_who_reaches_a_process_by_names_is_marked(function: Callable[..., Any]) -> None:
    assert markers_of(item(function)) == {"processes"}


def test_who_names_only_what_stands_beside_it_is_not_marked() -> None:
    assert markers_of(item(quiet, run=[Heard, 1, "real"])) == set()


def test_fixtures_and_parameters_count_as_well() -> None:
    assert markers_of(item(quiet, by_a_module)) == {"processes"}
    assert markers_of(item(quiet, run=real)) == {"processes"}
    assert markers_of(item(quiet, runs={"both": (quiet, partial(real, num_workers=2))})) == {"processes"}


def test_browsers_ray_and_namespaces_have_markers_of_their_own() -> None:
    assert markers_of(item(quiet, in_a_browser, on_ray, in_namespaces)) == {"browser", "ray", "root"}


def test_every_starter_is_where_the_table_says() -> None:
    assert [name for name in STARTERS if found(name) != name] == []


def found(name: str) -> str:
    module, _, last = name.rpartition(".")
    thing = getattr(__import__(module, fromlist=[last]), last)
    return f"{thing.__module__}.{thing.__qualname__}"


@pytest.mark.parametrize(
    ("event", "arguments", "markers"),
    [
        ("os.fork", (), {"browser", "processes", "ray", "root"}),
        ("subprocess.Popen", ("python", ["python"], None, None), {"browser", "processes", "ray", "root"}),
        ("subprocess.Popen", ("bash", ["bash", "--remote-debugging-pipe"], None, None), {"browser"}),
        ("subprocess.Popen", ("python", ["python", "-m", "weft.engines.ray.bridge"], None, None), {"ray"}),
        ("ctypes.dlsym", (None, "unshare"), {"root"}),
    ],
)
def test_what_the_markers_do_not_announce_is_refused(event: str, arguments: Any, markers: set[str]) -> None:
    guard = Guard()
    guard.hear(event, arguments)  # no test runs
    for marker in ["processes", "root", "browser", "ray"]:
        guard.markers = {"slow", marker}
        if marker in markers:
            guard.hear(event, arguments)
        else:
            with pytest.raises(AssertionError, match="has none of the markers"):
                guard.hear(event, arguments)
    guard.markers = {"slow"}
    with pytest.raises(AssertionError, match="has none of the markers"):
        guard.hear(event, arguments)


def test_what_is_no_start_is_nobodys_business() -> None:
    guard = Guard()
    guard.markers = set()
    guard.hear("open", ("file", "r", 0))
    guard.hear("ctypes.dlsym", (None, "prctl"))
    assert guard.refused == []


def test_a_test_that_swallows_the_refusal_fails_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GUARD, "markers", set())
    try:
        subprocess.run(["true"], check=True)
    except AssertionError:
        heard = True
    assert heard
    with pytest.raises(AssertionError, match=r"it starts something \(subprocess\.Popen\)"):
        GUARD.check()
