"""The ghost store: sizes only."""

import pytest

from weft.core.actions import Apply, Combine, copy
from weft.core.errors import IllegalAction
from weft.core.names import Bucket, Buffer, Part
from weft.store.ghost import GhostStore

PARAMS, GRADIENT, MINE, OTHER = (Buffer(slot, 0) for slot in ("params", "gradient", "mine", "other"))
REFUSAL = (
    r"^slot 'other' was never declared; declared are gradient, inbox, mine, params. "
    r"Return it from the strategy's slots\(\).$"
)


@pytest.fixture
def store() -> GhostStore:
    return GhostStore((Bucket(10), Bucket(3, itemsize=8)), ["mine"])


def test_it_knows_the_bytes_of_every_bucket_whatever_the_slot(store: GhostStore) -> None:
    assert [store.num_bytes(Buffer(slot, 0)) for slot in ("params", "gradient", "inbox", "mine")] == [40] * 4
    assert store.num_bytes(Buffer("params", 1)) == 24


def test_parts_have_the_bytes_of_their_elements(store: GhostStore) -> None:
    assert [store.num_bytes(Buffer("params", 0, Part(which, 3))) for which in range(3)] == [12, 12, 16]


def test_it_holds_nothing(store: GhostStore) -> None:
    store.write(PARAMS, None)
    store.receive(Buffer("inbox", 0), None, None)
    store.combine(copy(MINE, PARAMS))
    store.apply([Apply(MINE, PARAMS)])
    store.forget_captured()
    assert store.capture(PARAMS) is None
    assert store.reduce([None, None], [1.0, 1.0], "mean") is None
    assert store.hyper() is None


def test_an_undeclared_slot_is_illegal_wherever_a_message_or_an_action_names_it(store: GhostStore) -> None:
    for refused in (
        lambda: store.num_bytes(OTHER),
        lambda: store.write(OTHER, None),
        lambda: store.combine(Combine(OTHER, 1.0, PARAMS)),
        lambda: store.apply([Apply(OTHER, PARAMS)]),
    ):
        with pytest.raises(IllegalAction, match=REFUSAL):
            refused()
