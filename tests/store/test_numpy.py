"""The numpy store: a replica's arrays and the slots a strategy declared."""

from collections.abc import Sequence

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import MAX, MEAN, SUM, Apply, Combine, add, copy, rescale
from weft.core.errors import IllegalAction
from weft.core.names import Buffer, Part
from weft.core.rules import LBFGS, SGD, Momentum
from weft.store.numpy import NumpyStore, reduce_arrays

P, G, INBOX, MINE, OTHER = (Buffer(slot, 0) for slot in ("params", "gradient", "inbox", "mine", "other"))
P1, G1 = Buffer("params", 1), Buffer("gradient", 1)


@pytest.fixture
def replica() -> ArrayReplica:
    """Two buckets: three numbers of float32, then four of float64."""
    arrays = {"a": np.arange(4.0), "b": np.full(3, 8.0, np.float32)}
    made = ArrayReplica(arrays, SGD(lr=0.5), None)
    made.take({"a": np.ones(4), "b": np.full(3, 2.0)})
    return made


@pytest.fixture
def store(replica: ArrayReplica) -> NumpyStore:
    return NumpyStore(replica, ["mine"], {"slow": Momentum(lr=0.1, momentum=0.5)})


def values(store: NumpyStore, buffer: Buffer) -> list[float]:
    return [float(value) for value in store.capture(buffer)]


def test_params_and_gradient_are_the_replicas_own_memory(store: NumpyStore, replica: ArrayReplica) -> None:
    store.write(P1, np.full(4, 9.0))
    assert replica.views()["a"].tolist() == [9, 9, 9, 9]
    assert values(store, G) == [2, 2, 2]


def test_a_declared_slot_starts_at_zero_in_the_type_of_its_bucket(store: NumpyStore) -> None:
    assert values(store, MINE) == [0, 0, 0]
    assert store.num_bytes(MINE) == 12
    assert store.num_bytes(Buffer("mine", 1)) == 32


def test_a_part_is_a_piece_of_its_bucket(store: NumpyStore) -> None:
    halves = [Buffer("params", 1, Part(which, 2)) for which in range(2)]
    store.combine(rescale(halves[1], 10.0))
    assert values(store, P1) == [0, 1, 20, 30]
    assert values(store, halves[0]) == [0, 1]
    assert store.num_bytes(halves[0]) == 16


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (copy(P, G), 2.0),
        (add(P, G), 10.0),
        (add(P, G, -0.5), 7.0),
        (rescale(P, 0.5), 4.0),
        (rescale(P, 0.0), 0.0),
        (Combine(P, 0.5, G, 3.0), 10.0),
        (Combine(P, 0.0, G, 3.0), 6.0),
        (Combine(P, 0.5, G, 0.5, times=G), 6.0),
        (Combine(P, 0.0, G, 1.0, times=P), 16.0),
    ],
    ids=repr,
)
def test_combine_is_keep_times_into_plus_scale_times_add(store: NumpyStore, action: Combine, expected: float) -> None:
    store.combine(action)
    assert values(store, P) == [expected] * 3
    assert store.capture(P).dtype == np.float32


def test_clearing_a_buffer_also_clears_what_is_not_a_number(store: NumpyStore) -> None:
    store.write(P, np.array([np.nan, np.inf, 1.0]))
    store.combine(rescale(P, 0.0))
    assert values(store, P) == [0, 0, 0]
    store.write(P, np.array([np.nan, np.inf, 1.0]))
    store.combine(copy(P, G))
    assert values(store, P) == [2, 2, 2]


def test_a_captured_value_outlives_whatever_is_written_later(store: NumpyStore) -> None:
    captured = store.capture(P)
    store.combine(rescale(P, 0.0))
    assert captured.tolist() == [8, 8, 8]
    assert values(store, P) == [0, 0, 0]


def test_a_value_is_copied_once_for_all_who_capture_it_until_it_is_written(store: NumpyStore) -> None:
    assert store.capture(P) is store.capture(P)
    assert store.num_copies == 1
    for written in (copy(P, G), rescale(Buffer("params", 0, Part(0, 3)), 0.0)):
        store.combine(written)
        store.capture(P)
    assert store.num_copies == 3
    store.capture(P1)
    store.apply([Apply(G, P)])
    store.capture(P1)
    assert store.num_copies == 4


def test_what_the_users_code_may_have_written_is_captured_anew(store: NumpyStore, replica: ArrayReplica) -> None:
    store.capture(G)
    replica.take({"a": np.ones(4), "b": np.full(3, 5.0)})
    store.forget_captured()
    assert values(store, G) == [5, 5, 5]


def test_inbox_names_a_body_until_it_is_taken_away(store: NumpyStore) -> None:
    body = np.full(3, 4.0, np.float32)
    store.receive(INBOX, body, None)
    store.combine(copy(P, INBOX))
    assert values(store, P) == [4, 4, 4]
    assert store.capture(INBOX) is body, "a body is passed on without a copy"
    store.receive(None, None, None)
    with pytest.raises(IllegalAction, match=r"^inbox was named, but the event being answered has no body.$"):
        store.combine(copy(P, INBOX))


@pytest.mark.parametrize("action", [rescale(INBOX, 2.0), copy(INBOX, P)])
def test_a_body_is_not_written_to(store: NumpyStore, action: Combine) -> None:
    store.receive(INBOX, np.ones(3, np.float32), None)
    message = (
        r"^Buffer\(slot='inbox', bucket=0, part=None\) was written to, but a received body belongs to its sender.$"
    )
    with pytest.raises(IllegalAction, match=message):
        store.combine(action)


@pytest.mark.parametrize("action", [copy(OTHER, P), copy(P, OTHER), Combine(P, 1.0, G, times=OTHER)], ids=repr)
def test_an_undeclared_slot_is_illegal(store: NumpyStore, action: Combine) -> None:
    message = r"^slot 'other' was never declared; declared are gradient, mine, params, slow.velocity. Return it from "
    with pytest.raises(IllegalAction, match=message):
        store.combine(action)


def test_the_users_optimizer_updates_all_buckets_of_one_update(store: NumpyStore) -> None:
    store.apply([Apply(G, P), Apply(G1, P1)])
    assert values(store, P) == [7, 7, 7]
    assert values(store, P1) == [-0.5, 0.5, 1.5, 2.5]


def test_a_bucket_updated_twice_moves_twice(store: NumpyStore) -> None:
    store.apply([Apply(G, P), Apply(G1, P1), Apply(G, P)])
    assert values(store, P) == [6, 6, 6]
    assert values(store, P1) == [-0.5, 0.5, 1.5, 2.5]


def test_scale_multiplies_the_optimizers_rate(store: NumpyStore) -> None:
    store.apply([Apply(G, P, scale=0.5)])
    assert values(store, P) == [7.5, 7.5, 7.5]


def test_the_users_optimizer_acts_on_params_only(store: NumpyStore) -> None:
    message = r"^Apply\(.*\) runs the user's optimizer on 'mine', but it acts on params.$"
    with pytest.raises(IllegalAction, match=message):
        store.apply([Apply(G, MINE)])


def test_a_declared_rule_acts_on_any_slot_and_remembers_each_bucket(store: NumpyStore) -> None:
    store.apply([Apply(G, MINE, "slow")])
    store.apply([Apply(G, MINE, "slow"), Apply(G1, Buffer("mine", 1), "slow")])
    assert values(store, MINE) == pytest.approx([-0.1 * (2 + 3)] * 3)
    assert values(store, Buffer("mine", 1)) == pytest.approx([-0.1] * 4)


class Flagged:
    """A replica of two buckets, the last number of each of which is a flag."""

    def __init__(self) -> None:
        self._arrays = {"params": [np.array([3.0, 1.0, 0.0]), np.array([2.0, 0.0], np.float32)], "gradient": []}

    def array(self, slot: str, bucket: int) -> np.ndarray:
        return self._arrays[slot][bucket]

    def flags(self, bucket: int) -> list[int]:
        return [2 - bucket]


def test_lbfgs_takes_all_buckets_of_an_answer_as_one_vector_without_their_flags() -> None:
    replica = Flagged()
    store = NumpyStore(replica, ["sum"], {"lbfgs": LBFGS(lr=0.5)})  # type: ignore[arg-type]
    sums = [Buffer("sum", bucket) for bucket in range(2)]
    store.write(sums[0], np.array([2.0, -1.0, 1.0]))
    store.write(sums[1], np.array([5.0, 1.0]))
    store.apply([Apply(sums[0], P, "lbfgs"), Apply(sums[1], P1, "lbfgs")])
    assert replica.array("params", 0) == pytest.approx([3.0 - 0.5 * 2 / 8, 1.0 + 0.5 / 8, 0.0])
    assert replica.array("params", 1) == pytest.approx([2.0 - 0.5 * 5 / 8, 0.0])
    assert values(store, sums[0]) == [2.0, -1.0, 1.0]
    store.write(sums[0], np.array([1.0, -1.0, 1.0]))
    before = replica.array("params", 0).copy()
    store.apply([Apply(sums[0], P, "lbfgs"), Apply(sums[1], P1, "lbfgs")])
    assert replica.array("params", 0)[0] < before[0] - 0.5, "the first step has taught it how far to go"


def test_an_undeclared_rule_is_illegal(store: NumpyStore) -> None:
    message = r"^rule 'fast' was never declared. Return it from the strategy's rules\(\).$"
    with pytest.raises(IllegalAction, match=message):
        store.apply([Apply(G, P, "fast")])


def test_a_received_gradient_is_applied_with_its_senders_hyper_parameters(store: NumpyStore) -> None:
    store.receive(INBOX, np.full(3, 2.0, np.float32), {"lr": 2.0})
    store.apply([Apply(INBOX, P)])
    assert values(store, P) == [4, 4, 4]
    store.apply([Apply(G, P)])
    assert values(store, P) == [3, 3, 3], "its own gradient keeps its own rate"


def test_a_server_applies_everything_with_the_hyper_parameters_it_was_told_last(replica: ArrayReplica) -> None:
    server = NumpyStore(replica, ["mine"], {}, is_server=True)
    server.receive(INBOX, np.full(3, 2.0, np.float32), {"lr": 2.0})
    server.combine(copy(MINE, INBOX))
    server.receive(None, None, None)
    server.apply([Apply(MINE, P)])
    assert values(server, P) == [4, 4, 4]


def test_hyper_parameters_are_those_of_the_optimizer_now(store: NumpyStore) -> None:
    assert store.hyper() == {"lr": 0.5}


@pytest.mark.parametrize(
    ("op", "weights", "expected"),
    [
        (MEAN, (1.0, 3.0), [2.5, 0.5]),
        (MEAN, (0.0, 3.0), [3.0, 0.0]),
        (SUM, (1.0, 3.0), [10.0, 2.0]),
        (SUM, (2.0, 0.0), [2.0, 4.0]),
        (MAX, (1.0, 3.0), [3.0, 2.0]),
        (MAX, (1.0, 0.0), [1.0, 2.0]),
    ],
)
def test_reductions_count_only_who_has_a_weight(
    store: NumpyStore, op: str, weights: Sequence[float], expected: list[float]
) -> None:
    payloads = [np.array([1.0, 2.0]), np.array([3.0, 0.0])]
    assert store.reduce(payloads, weights, op).tolist() == expected
    assert [payload.tolist() for payload in payloads] == [[1, 2], [3, 0]]


def test_the_mean_of_one_contribution_is_that_contribution_bit_for_bit() -> None:
    value = np.array([0.1, 1e-30, 3e37], np.float32)
    mean = reduce_arrays([value, np.full(3, np.nan, np.float32)], [3.0, 0.0], MEAN)
    assert mean.tobytes() == value.tobytes()
    assert mean is not value


def test_sums_are_made_in_the_order_given_and_in_the_type_of_the_contributions() -> None:
    payloads = [np.array([x], np.float32) for x in (1e8, 1.0, -1e8)]
    weights = [1.0] * 3
    assert reduce_arrays(payloads, weights, SUM).tolist() == [0.0]
    assert reduce_arrays([payloads[0], payloads[2], payloads[1]], weights, SUM).tolist() == [1.0]
    assert reduce_arrays(payloads, weights, MEAN).dtype == np.float32


def test_a_mean_of_half_precision_does_not_overflow_on_its_way() -> None:
    halves = [np.full(2, 30.0, np.float16), np.full(2, 50.0, np.float16)]
    mean = reduce_arrays(halves, [4096.0, 4096.0], MEAN)
    assert mean.dtype == np.float16
    assert mean.tolist() == [40.0, 40.0]
