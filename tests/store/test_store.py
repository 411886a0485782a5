"""The seam between drivers and memory: what is coded stays so until somebody wants an array of it."""

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.codecs import FP16, QSGD, OneBit, RandomK, TopK
from weft.core.actions import Combine, Encode, add, copy, rescale
from weft.core.errors import IllegalAction
from weft.core.names import Buffer, Part
from weft.core.rules import SGD
from weft.store.coded import Coded
from weft.store.ghost import GhostStore
from weft.store.numpy import NumpyStore
from weft.store.store import undeclared

P, G, IN, MINE, OTHER, RESIDUAL = (
    Buffer(slot, 0) for slot in ("params", "gradient", "inbox", "mine", "other", "residual")
)
CODECS = {"push": TopK(0.4), "sum": RandomK(0.5), "cast": FP16(), "bit": OneBit()}
GRADIENT = np.array([[1.0, -5.0, 2.0, 0.5, -3.0], [0.1, 4.0, -0.2, 6.0, 0.3]])
LARGEST = [0, -5, 0, 0, -3, 0, 4, 0, 6, 0]


@pytest.fixture
def store() -> NumpyStore:
    replica = ArrayReplica({"w": np.zeros((2, 5))}, SGD(lr=0.5), None)
    replica.take({"w": GRADIENT})
    return NumpyStore(replica, ["mine", "other", "residual"], {}, codecs=CODECS)


def values(store: NumpyStore, buffer: Buffer) -> list[float]:
    return [float(value) for value in store.lend(buffer)]


def is_coded(store: NumpyStore, buffer: Buffer) -> bool:
    return isinstance(store.operand(buffer), Coded)


def test_an_undeclared_slot_is_named_with_those_declared_and_what_to_do() -> None:
    assert undeclared(Buffer("mine", 0), {"params": 1, "gradient": 2}) == (
        "slot 'mine' was never declared; declared are gradient, params. Return it from the strategy's slots()."
    )


def test_what_is_encoded_has_its_coded_size_and_is_decoded_when_an_array_is_wanted(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G))
    assert store.num_bytes(MINE) == CODECS["push"].size(store.operand(MINE).shape.form)  # type: ignore[attr-defined]
    assert is_coded(store, MINE)
    assert values(store, MINE) == LARGEST
    assert not is_coded(store, MINE)
    assert store.num_bytes(MINE) == 80


def test_the_residual_keeps_what_is_left_out_and_says_it_later(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G, RESIDUAL))
    np.testing.assert_array_equal(values(store, RESIDUAL), GRADIENT.ravel() - LARGEST)
    store.combine(rescale(G, 0.0))
    store.encode(Encode("push", 1, MINE, G, RESIDUAL))
    assert values(store, MINE) == [1, 0, 2, 0.5, 0, 0, 0, 0, 0, 0.3]


def test_a_copy_of_what_is_coded_is_coded_and_captured_without_a_copy(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G))
    store.combine(copy(OTHER, MINE))
    assert is_coded(store, OTHER)
    captured = store.capture(OTHER)
    store.combine(rescale(OTHER, 0.0))
    assert captured.decoded(store.meter).tolist() == LARGEST
    assert store.num_copies == 0
    assert values(store, OTHER) == [0] * 10


def test_parameters_and_gradients_are_always_arrays(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G))
    store.combine(copy(G, MINE))
    store.combine(copy(P, MINE))
    assert not is_coded(store, G)
    assert values(store, P) == values(store, G) == LARGEST
    assert is_coded(store, MINE)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (add(P, MINE), lambda said: 1 + said),
        (add(P, MINE, -0.5), lambda said: 1 - 0.5 * said),
        (Combine(P, 0.5, MINE, 2.0), lambda said: 0.5 + 2 * said),
        (Combine(P, 0.0, MINE, 3.0), lambda said: 3 * said),
        (Combine(P, 1.0, MINE, 0.0), lambda said: 1 + 0 * said),
        (Combine(P, 1.0, MINE, 2.0, times=P), lambda said: 1 + 2 * said),
    ],
    ids=lambda value: repr(value) if isinstance(value, Combine) else "",
)
def test_adding_decodes_on_the_way(store: NumpyStore, action: Combine, expected: object) -> None:
    store.write(P, np.ones(10))
    store.encode(Encode("push", 0, MINE, G))
    store.combine(action)
    assert values(store, P) == list(expected(np.array(LARGEST)))  # type: ignore[operator]


def test_what_adds_up_is_summed_and_scaled_in_coded_form(store: NumpyStore) -> None:
    store.encode(Encode("sum", 0, MINE, G))
    one = np.array(store.operand(MINE).decoded(store.meter))
    store.combine(Combine(OTHER, 0.0, MINE, 3.0))
    store.combine(Combine(OTHER, 1.0, MINE, 2.0))
    store.combine(rescale(OTHER, 0.5))
    assert is_coded(store, OTHER)
    np.testing.assert_allclose(values(store, OTHER), 2.5 * one)
    store.combine(copy(OTHER, MINE))
    store.combine(rescale(OTHER, 0.0))
    assert is_coded(store, OTHER), "nothing, in the same code"
    assert values(store, OTHER) == [0] * 10


def test_what_does_not_add_up_becomes_an_array_when_it_is_scaled_or_added_to(store: NumpyStore) -> None:
    for action in (rescale(OTHER, 0.5), add(OTHER, MINE), add(OTHER, P)):
        store.encode(Encode("push", 0, MINE, G))
        store.combine(copy(OTHER, MINE))
        store.combine(action)
        assert not is_coded(store, OTHER)
        share = 0.5 if action.add is None else 2.0 if action.add == MINE else 1.0
        assert values(store, OTHER) == [share * value for value in LARGEST]


def test_what_came_is_coded_or_not_and_copied_in_its_form(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G))
    store.receive(IN, store.capture(MINE), None)
    store.combine(copy(OTHER, IN))
    assert is_coded(store, OTHER)
    store.combine(add(OTHER, IN))
    assert values(store, OTHER) == [2 * value for value in LARGEST]
    assert store.num_bytes(IN) < 80
    store.receive(IN, np.ones(10), None)
    store.combine(copy(OTHER, IN))
    assert values(store, OTHER) == [1] * 10


def test_parts_are_encoded_apart_and_are_one_array_in_the_end(store: NumpyStore) -> None:
    for which in range(2):
        store.encode(Encode("cast", 0, Buffer("mine", 0, Part(which, 2)), Buffer("gradient", 0, Part(which, 2))))
    assert is_coded(store, Buffer("mine", 0, Part(1, 2)))
    np.testing.assert_allclose(values(store, MINE), GRADIENT.ravel(), rtol=1e-3)


def test_overwriting_forgets_what_was_coded(store: NumpyStore) -> None:
    store.encode(Encode("push", 0, MINE, G))
    store.write(MINE, np.full(10, 7.0))
    assert values(store, MINE) == [7] * 10
    store.encode(Encode("push", 0, MINE, G))
    store.combine(copy(MINE, P))
    assert values(store, MINE) == [0] * 10


def test_what_is_not_a_number_is_counted_and_goes_nowhere(store: NumpyStore) -> None:
    store.lend(G)[3] = np.nan
    store.encode(Encode("bit", 0, MINE, G, RESIDUAL))
    assert store.meter.num_not_finite == 1
    assert np.isfinite(values(store, MINE)).all()
    assert np.isfinite(values(store, RESIDUAL)).all()


def test_random_choices_follow_from_the_seed_the_node_and_the_clock() -> None:
    def drawn(seed: tuple[int, int], clock: int) -> list[float]:
        replica = ArrayReplica({"w": np.zeros((2, 5))}, SGD(lr=0.5), None)
        replica.take({"w": GRADIENT})
        store = NumpyStore(replica, ["mine"], {}, codecs=CODECS, seed=seed)
        store.encode(Encode("sum", clock, MINE, G))
        return values(store, MINE)

    assert drawn((1, 0), 0) == drawn((1, 0), 0) == drawn((1, 2), 0), "all workers say the same places"
    assert len({tuple(drawn((1, 0), clock)) for clock in range(8)}) > 1
    assert len({tuple(drawn((seed, 0), 0)) for seed in range(8)}) > 1


def test_what_is_encoded_again_under_another_kind_is_drawn_again() -> None:
    """Else the mean of what was rounded would be rounded by the same numbers, and be biased."""
    replica = ArrayReplica({"w": np.zeros((2, 5))}, SGD(lr=0.5), None)
    replica.take({"w": GRADIENT})
    store = NumpyStore(replica, ["mine", "other"], {}, codecs={"there": QSGD(1), "back": QSGD(1)})
    differ = []
    for clock in range(8):
        store.encode(Encode("there", clock, MINE, G))
        store.encode(Encode("back", clock, Buffer("other", 0), G))
        differ.append(values(store, MINE) != values(store, Buffer("other", 0)))
    assert any(differ)


def test_a_kind_without_a_codec_and_a_slot_that_was_not_declared_are_illegal(store: NumpyStore) -> None:
    with pytest.raises(IllegalAction) as refused:
        store.encode(Encode("word", 0, MINE, G))
    assert str(refused.value) == f"{Encode('word', 0, MINE, G)} has no codec; those with one are bit, cast, push, sum."
    with pytest.raises(IllegalAction, match="slot 'theirs' was never declared"):
        store.encode(Encode("push", 0, Buffer("theirs", 0), G))


@pytest.mark.parametrize("kind", ["push", "sum", "cast", "bit"])
def test_the_ghost_knows_the_same_sizes(store: NumpyStore, kind: str) -> None:
    ghost = GhostStore(store.replica.buckets, ["mine", "other", "residual"], CODECS)
    script = (
        Encode(kind, 0, MINE, G, RESIDUAL),
        copy(OTHER, MINE),
        Combine(OTHER, 0.0, MINE, 2.0),
        add(OTHER, MINE),
        rescale(OTHER, 0.5),
        copy(G, MINE),
        copy(MINE, P),
        Encode(kind, 1, OTHER, G),
        rescale(OTHER, 0.0),
    )
    for action in script:
        for each in (store, ghost):
            (each.encode if isinstance(action, Encode) else each.combine)(action)  # type: ignore[arg-type]
        sizes = [[each.num_bytes(buffer) for buffer in (MINE, OTHER, P, G)] for each in (store, ghost)]
        assert sizes[0] == sizes[1], action
    for each in (store, ghost):
        each.encode(Encode(kind, 0, MINE, G))
        each.receive(IN, each.capture(MINE), None)
        each.combine(copy(OTHER, IN))
    assert store.num_bytes(OTHER) == store.num_bytes(IN) == ghost.num_bytes(OTHER) == ghost.num_bytes(IN)
    with pytest.raises(IllegalAction, match="slot 'theirs' was never declared"):
        ghost.encode(Encode(kind, 0, Buffer("theirs", 0), G))
