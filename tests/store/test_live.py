"""The store of a node whose script runs while messages come (rule 13 of docs/architecture.md)."""

from typing import Any

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.core.actions import Combine, add, copy
from weft.core.names import PARAMS, Buffer
from weft.core.rules import SGD
from weft.core.script_state import IN_STEP, JOINED, NO_USER, READS_PARAMS, RESUME, STATES, STEP, ScriptState
from weft.store.live import LiveStore

P, G, INBOX, MINE = (Buffer(slot, 0) for slot in ("params", "gradient", "inbox", "mine"))


@pytest.fixture
def replica() -> ArrayReplica:
    made = ArrayReplica({"a": np.array([1.0, 2.0])}, SGD(lr=0.5), None)
    made.take({"a": np.array([2.0, 4.0])})
    return made


@pytest.fixture
def store(replica: ArrayReplica) -> LiveStore:
    return LiveStore(replica, ["mine"], {})


def go_on(store: LiveStore) -> None:
    """The script runs, or its next iteration does."""
    store.script.at = IN_STEP
    store.let_user_run()
    store.script.call(RESUME)


def stop(store: LiveStore) -> None:
    """The script waits."""
    store.script.call(STEP)
    store.stop_user()


def read(replica: ArrayReplica) -> list[float]:
    """What the script finds in its model."""
    return list(replica.views()["a"].tolist())


def held(store: LiveStore, buffer: Buffer = P) -> list[float]:
    """What protocols find."""
    return [float(value) for value in store.lend(buffer)]


def test_while_the_script_waits_it_will_see_what_is_written(store: LiveStore, replica: ArrayReplica) -> None:
    store.write(P, np.array([5.0, 6.0]))
    assert read(replica) == [5, 6]
    assert store.num_copies == 0


def test_while_the_script_runs_it_does_not_see_what_is_written_but_protocols_do(
    store: LiveStore, replica: ArrayReplica
) -> None:
    go_on(store)
    store.write(P, np.array([5.0, 6.0]))
    store.combine(add(P, G))
    assert (read(replica), held(store)) == ([1, 2], [7, 10])
    stop(store)
    assert (read(replica), held(store)) == ([7, 10], [7, 10])


@pytest.mark.parametrize("state", STATES)
def test_where_the_script_stands_says_whether_it_sees_what_is_written(state: str, replica: ArrayReplica) -> None:
    store = LiveStore(replica, [], {}, script=ScriptState(state))
    store.write(P, np.array([5.0, 6.0]))
    assert read(replica) == ([1, 2] if state in READS_PARAMS else [5, 6])
    assert held(store) == [5, 6]


def test_a_worker_without_a_seat_waits_to_begin_and_a_server_has_no_script(replica: ArrayReplica) -> None:
    assert LiveStore(replica, [], {}).script.at is JOINED
    assert LiveStore(replica, [], {}, is_server=True).script.at is NO_USER


def test_the_next_iteration_sees_what_came_during_the_one_before(store: LiveStore, replica: ArrayReplica) -> None:
    go_on(store)
    store.write(P, np.array([5.0, 6.0]))
    go_on(store)
    assert read(replica) == [5, 6]
    store.write(P, np.array([7.0, 8.0]))
    assert (read(replica), held(store)) == ([5, 6], [7, 8])


def test_only_the_first_write_to_a_bucket_copies_and_other_slots_never_do(store: LiveStore) -> None:
    go_on(store)
    store.combine(copy(MINE, G))
    assert store.num_copies == 0
    for _ in range(3):
        store.combine(add(P, MINE))
    assert store.num_copies == 1


def test_a_shadow_is_used_again(store: LiveStore) -> None:
    go_on(store)
    store.write(P, np.zeros(2))
    first = store.lend(P)
    go_on(store)
    store.write(P, np.ones(2))
    assert store.lend(P) is first


def test_a_captured_value_is_that_of_the_moment_even_in_a_shadow(store: LiveStore) -> None:
    go_on(store)
    store.write(P, np.array([5.0, 6.0]))
    captured = store.capture(P)
    store.write(P, np.array([7.0, 8.0]))
    assert captured.tolist() == [5, 6]
    assert store.capture(P).tolist() == [7, 8]


def test_what_the_script_wrote_meanwhile_is_captured_when_it_waits(store: LiveStore, replica: ArrayReplica) -> None:
    go_on(store)
    assert store.capture(G).tolist() == [2, 4]
    replica.take({"a": np.array([20.0, 40.0])})
    stop(store)
    assert store.capture(G).tolist() == [20, 40]


def test_a_model_that_is_lent_to_the_script_is_taken_back_and_protocols_never_see_it(
    store: LiveStore, replica: ArrayReplica
) -> None:
    store.lend_model()
    replica.array(PARAMS, 0)[:] = [100.0, 200.0]
    assert (read(replica), held(store)) == ([100, 200], [1, 2])
    store.combine(add(P, G))
    assert read(replica) == [100, 200]
    store.take_model_back()
    assert (read(replica), held(store)) == ([3, 6], [3, 6])


@pytest.mark.parametrize("is_trained", [True, False])
def test_what_was_written_before_a_model_is_lent_is_there_again_afterwards(
    is_trained: bool, store: LiveStore, replica: ArrayReplica
) -> None:
    replica.buckets = (replica.buckets[0]._replace(trainable=is_trained),)
    go_on(store)
    store.write(P, np.array([5.0, 6.0]))
    if not is_trained:
        replica.array(PARAMS, 0)[:] += 1.0  # as the script's own forward does to BatchNorm's means
    store.lend_model()
    replica.array(PARAMS, 0)[:] = [100.0, 200.0]
    store.take_model_back()
    expected = [5, 6] if is_trained else [6, 7]
    assert (read(replica), held(store)) == (expected, expected)


def test_a_received_body_can_be_kept_for_an_answer_that_is_finished_later(store: LiveStore) -> None:
    lent = np.array([3.0, 4.0])
    store.receive(G, lent, {"lr": 0.25})
    body, payload, hyper = store.received()
    lent[:] = -1.0
    store.receive(None, None, None)
    assert store.received() == (None, None, {"lr": 0.25})
    store.receive(body, payload, hyper)
    assert (body, held(store, INBOX), hyper) == (G, [3, 4], {"lr": 0.25})


def test_what_the_script_writes_while_its_parameters_are_copied_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = ArrayReplica({"w": np.zeros(3)}, SGD(lr=1.0), None)
    store, copyto, copies = LiveStore(replica, [], {}), np.copyto, []

    def copy_and_write(into: Any, source: Any) -> None:
        copyto(into, source)
        copies.append(into)
        if len(copies) == 1:  # the script's own thread, between two copies of a message's answer
            replica.array(PARAMS, 0)[:] += 1.0

    go_on(store)
    with monkeypatch.context() as patch:
        patch.setattr(np, "copyto", copy_and_write)
        store.combine(Combine(Buffer(PARAMS, 0), 0.5))
    stop(store)
    assert len(copies) == 2
    assert replica.array(PARAMS, 0).tolist() == [1.0, 1.0, 1.0]


def lending(store: LiveStore) -> list[tuple[str, int]]:
    """What the store takes back from now on."""
    taken: list[tuple[str, int]] = []
    store.take_back = lambda slot, bucket: taken.append((slot, bucket))
    return taken


def lend(store: LiveStore, buffer: Buffer) -> bool:
    return store.may_lend(buffer, store.operand(buffer))


def test_what_is_lent_is_taken_back_once_before_it_is_written_to(store: LiveStore) -> None:
    go_on(store)
    stop(store)
    taken = lending(store)
    assert all(lend(store, buffer) for buffer in (P, MINE))
    store.combine(add(P, MINE))
    store.write(P, np.array([5.0, 6.0]))
    assert taken == [("params", 0)]
    store.combine(copy(MINE, P))
    assert taken == [("params", 0), ("mine", 0)]


def test_what_the_script_may_write_to_is_taken_back_before_it_goes_on_and_not_lent_while_it_runs(
    store: LiveStore,
) -> None:
    go_on(store)
    stop(store)
    taken = lending(store)
    assert all(lend(store, buffer) for buffer in (P, G, MINE))
    go_on(store)
    assert sorted(taken) == [("gradient", 0), ("params", 0)]
    assert [lend(store, buffer) for buffer in (P, G, MINE)] == [False, False, True]


def test_a_shadow_that_was_lent_is_taken_back_before_it_is_used_again(store: LiveStore) -> None:
    taken = lending(store)
    go_on(store)
    store.write(P, np.array([5.0, 6.0]))
    stop(store)
    lend(store, P)
    store.lend_model()
    assert taken == [("params", 0)]


def test_a_server_lends_what_no_script_writes_to(replica: ArrayReplica) -> None:
    store = LiveStore(replica, [], {}, is_server=True)
    assert lend(store, P)
    store.receive(INBOX, np.zeros(2), None)
    assert not lend(store, INBOX), "it belongs to its sender"
