"""A store that keeps accounts of what codecs leave out."""

import numpy as np
import pytest

from weft.codecs import OneBit, PowerSGD
from weft.core.actions import Encode, add, rescale
from weft.core.names import GRADIENT, Buffer, Part
from weft.fuzz.accounts import AccountingStore, keeps
from weft.fuzz.ledger import Book, LedgerReplica

RESIDUAL, REST, CODED = Buffer("push:residual", 0), Buffer("two_way.rest", 0), Buffer("push:coded", 0)
SOURCE = Buffer(GRADIENT, 0)


@pytest.fixture
def store() -> AccountingStore:
    store = AccountingStore(
        LedgerReplica(Book((0,), 4)), ["push:residual", "two_way.rest", "push:coded"], {}, codecs={"push": OneBit()}
    )
    store.replica.array(GRADIENT, 0)[:] = [0.0, 1.0, -2.0, 0.5, 3.0]
    return store


def test_slots_that_keep_what_is_left_out_are_known_by_their_names() -> None:
    assert [keeps(name) for name in ("gradient:residual", "two_way.rest", "params")] == [True, True, False]


def test_what_was_given_is_what_was_said_and_what_is_left(store: AccountingStore) -> None:
    store.encode(Encode("push", 7, CODED, SOURCE, RESIDUAL))
    ((slot, bucket), account), *others = store.accounts.items()
    assert (slot, bucket, others) == ("push:residual", 0, [])
    ((key, parts),) = account.contributions.items()
    assert (key, list(parts)) == (("push", 7), [None])
    given, said, payload = parts[None]
    assert payload is store.capture(CODED)
    assert given.tolist() == [0.0, 1.0, -2.0, 0.5, 3.0]
    assert np.allclose(given - said, store.lend(RESIDUAL))
    assert said.any()


def test_what_is_encoded_again_or_in_other_parts_counts_as_it_was_last(store: AccountingStore) -> None:
    halves = [Part(0, 2), Part(1, 2)]
    for half in halves:
        store.encode(Encode("push", 7, *(Buffer(*b[:2], half) for b in (CODED, SOURCE, RESIDUAL))))
    contributions = store.accounts["push:residual", 0].contributions
    assert list(contributions["push", 7]) == halves
    store.encode(Encode("push", 7, CODED, SOURCE, RESIDUAL))
    assert list(contributions["push", 7]) == [None]
    store.replica.array(GRADIENT, 0)[:] = 9.0
    store.encode(Encode("push", 7, CODED, SOURCE, RESIDUAL))
    assert contributions["push", 7][None].given.tolist() == [9.0] * 5


def test_what_is_encoded_without_a_residual_is_on_no_account(store: AccountingStore) -> None:
    store.encode(Encode("push", 7, CODED, SOURCE))
    assert store.accounts == {}


def test_what_a_factor_leaves_out_is_on_no_account() -> None:
    codecs = {"push": PowerSGD(1).left}
    store = AccountingStore(
        LedgerReplica(Book((0, 1, 2, 3), 4, width=2)), ["push:residual", "push:coded"], {}, codecs=codecs
    )
    store.encode(Encode("push", 7, CODED, SOURCE, RESIDUAL))
    assert store.accounts == {}


def test_what_goes_from_one_residual_to_another_is_noted_on_both(store: AccountingStore) -> None:
    store.lend(REST)[:] = [1.0, 2.0, 3.0, 4.0, 5.0]
    store.combine(add(RESIDUAL, REST, 3.0))
    store.combine(rescale(REST, 0.0))
    store.combine(add(RESIDUAL, SOURCE))
    assert store.accounts["push:residual", 0].moved.tolist() == [3.0, 6.0, 9.0, 12.0, 15.0]
    assert store.accounts["two_way.rest", 0].moved.tolist() == [-1.0, -2.0, -3.0, -4.0, -5.0]
    assert store.lend(RESIDUAL).tolist() == [3.0, 7.0, 7.0, 12.5, 18.0]
