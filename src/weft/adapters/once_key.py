"""The identity of what `weft.once` loads: equal in all workers that load the same."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.core.errors import ConfigError


class OnceKey(NamedTuple):
    """The identity of a load: a function's code, which compares by value, and all values that it sees."""

    code: object
    closed_over: tuple[Any, ...]
    defaults: tuple[Any, ...] | None
    args: tuple[Any, ...]

    def __str__(self) -> str:
        """The key as text, equal in all processes that run the script: the function's name, line and values."""
        place = getattr(self.code, "co_firstlineno", 0)
        name = getattr(self.code, "co_name", None) or getattr(self.code, "__qualname__", type(self.code).__name__)
        return f"{name}, line {place}, {self.closed_over!r}, {self.defaults!r}, {self.args!r}"


def once_key(load: Callable[..., Any], args: tuple[Any, ...]) -> OnceKey:
    """A key that is equal for the same function with the same values, in every worker."""
    code = getattr(load, "__code__", None)
    closed_over = tuple(cell.cell_contents for cell in getattr(load, "__closure__", None) or ())
    key = OnceKey(load if code is None else code, closed_over, getattr(load, "__defaults__", None), args)
    try:
        hash(key)
    except TypeError as error:
        raise ConfigError(
            f"weft.once cannot tell whether two workers load the same: {error}.\n"
            "  Give it a plain function with numbers, strings or tuples as arguments."
        ) from error
    if inspect.ismethod(load):
        raise ConfigError(
            "weft.once was given a method, whose object every worker has for itself.\n  Give it a plain function."
        )
    return key
