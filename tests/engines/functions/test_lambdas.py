"""The source of a lambda is the expression alone."""

from typing import Any

import pytest

from weft.engines.functions.lambdas import is_lambda, lambda_source

PLAIN: Any = lambda x: x + 1  # noqa: E731
TABLE: dict[str, Any] = {"in a call": sorted([2, 1], key=lambda x: -x), "in a table": lambda x: x * 2}
LONG: list[Any] = [
    lambda x: (
        x  # with a word
        + 3
    )
]
TWO: tuple[Any, Any] = (lambda x: x, lambda y: y)
ALIKE: tuple[Any, Any] = (lambda x: x, lambda x: x)


def test_it_is_found_wherever_it_stands_in_its_lines() -> None:
    assert lambda_source(PLAIN) == "lambda x: x + 1"
    assert lambda_source(LONG[0]) == "lambda x: (\n        x  # with a word\n        + 3\n    )"
    assert lambda_source(ALIKE[1]) == "lambda x: x"


def test_of_several_in_one_line_that_differ_none_is_taken() -> None:
    assert lambda_source(TWO[0]) is None
    assert lambda_source(TABLE["in a table"]) is None


def test_what_has_moved_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = PLAIN.__code__.replace(co_firstlineno=1)
    moved = type(PLAIN)(elsewhere, {})
    with pytest.raises(OSError, match="no lambda"):
        lambda_source(moved)
    monkeypatch.setattr("inspect.findsource", lambda value: (["(\n"], 0))
    with pytest.raises(OSError, match="cannot be read"):
        lambda_source(PLAIN)


def test_a_lambda_is_one_by_whatever_name_it_is_called() -> None:
    def named() -> None: ...

    renamed = lambda: None  # noqa: E731
    renamed.__name__ = "renamed"
    assert [is_lambda(each) for each in (PLAIN, renamed, named, len, int)] == [True, True, False, False, False]
