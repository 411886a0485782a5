"""How events and actions are stored."""

import pytest

from weft.core.records import record


@record
class Pair:
    """A record as the core makes them."""

    first: int
    second: str = "b"


def test_records_are_compared_by_value_and_shown_by_name() -> None:
    assert Pair(1) == Pair(1, "b")
    assert Pair(1) != Pair(2)
    assert repr(Pair(1)) == "Pair(first=1, second='b')"


def test_a_record_has_slots_so_that_a_misspelt_field_is_an_error() -> None:
    pair = Pair(1)
    with pytest.raises(AttributeError, match="thrid"):
        pair.thrid = 3  # type: ignore[attr-defined]
    assert not hasattr(pair, "__dict__")
