"""What weft.once loads has one key in all workers that load the same."""

from collections.abc import Callable

import pytest

from weft.adapters.once_key import once_key
from weft.core.errors import ConfigError


class Loader:
    def load(self) -> None: ...


def test_the_same_function_with_the_same_values_has_one_key() -> None:
    def make(closed_over: int) -> Callable[[], int]:
        def load() -> int:
            return closed_over

        return load

    assert once_key(make(1), (1,)) == once_key(make(1), (1,))
    assert once_key(make(1), (1,)) != once_key(make(1), (2,))
    assert once_key(make(1), ()) != once_key(make(2), ())
    assert once_key(dict, ()) != once_key(list, ())


def test_values_that_cannot_be_compared_and_methods_have_no_key() -> None:
    with pytest.raises(ConfigError) as refused:
        once_key(len, ([1, 2],))
    assert str(refused.value) == (
        "weft.once cannot tell whether two workers load the same: unhashable type: 'list'.\n"
        "  Give it a plain function with numbers, strings or tuples as arguments."
    )
    with pytest.raises(ConfigError) as refused:
        once_key(Loader().load, (1,))
    assert str(refused.value) == (
        "weft.once was given a method, whose object every worker has for itself.\n  Give it a plain function."
    )
