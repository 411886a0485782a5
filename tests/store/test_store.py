"""The seam between drivers and memory."""

from weft.core.names import Buffer
from weft.store.store import undeclared


def test_an_undeclared_slot_is_named_with_those_declared_and_what_to_do() -> None:
    assert undeclared(Buffer("mine", 0), {"params": 1, "gradient": 2}) == (
        "slot 'mine' was never declared; declared are gradient, params. Return it from the strategy's slots()."
    )
