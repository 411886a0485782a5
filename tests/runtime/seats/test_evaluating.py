"""What reported functions see: the model as it is when they begin, or one that is lent, whatever peers write."""

from threading import RLock

import numpy as np
import pytest

from weft.adapters.array_replica import ArrayReplica
from weft.core.errors import IllegalCall
from weft.core.names import PARAMS, Buffer
from weft.core.rules import SGD
from weft.core.script_state import ENDED, EVALUATING, IN_SAVE, REPORTING, RUNNING, ScriptState
from weft.runtime.seats.evaluating import evaluating
from weft.store.live import LiveStore

P = Buffer(PARAMS, 0)


@pytest.fixture
def replica() -> ArrayReplica:
    return ArrayReplica({"a": np.array([1.0, 2.0])}, SGD(lr=0.5), None)


@pytest.fixture
def store(replica: ArrayReplica) -> LiveStore:
    return LiveStore(replica, [], {})


def read(replica: ArrayReplica) -> list[float]:
    """What the script finds in its model."""
    return list(replica.views()["a"].tolist())


@pytest.mark.parametrize("before", [RUNNING, REPORTING])
def test_what_peers_write_meanwhile_is_not_seen_before_the_script_goes_on(
    before: str, store: LiveStore, replica: ArrayReplica
) -> None:
    script = store.script
    script.at = before
    with evaluating(store, script, RLock()):
        assert script.at is EVALUATING
        store.write(P, np.array([5.0, 6.0]))
        assert read(replica) == [1, 2]
    assert script.at is before
    assert read(replica) == [1, 2], "it still reads its parameters"
    store.let_user_run()
    assert read(replica) == [5, 6]


def test_after_the_scripts_end_what_peers_wrote_meanwhile_is_in_its_model_at_once(
    store: LiveStore, replica: ArrayReplica
) -> None:
    store.script.at = ENDED
    with evaluating(store, store.script, RLock()):
        store.write(P, np.array([5.0, 6.0]))
        assert read(replica) == [1, 2]
    assert store.script.at is ENDED
    assert read(replica) == [5, 6]


def test_a_model_that_is_lent_is_taken_back_although_the_function_raises(
    store: LiveStore, replica: ArrayReplica
) -> None:
    def evaluate() -> None:
        with evaluating(store, store.script, RLock(), lends_model=True):
            replica.array(PARAMS, 0)[:] = [100.0, 200.0]
            assert store.lend(P).tolist() == [1, 2], "protocols go on with the worker's own"
            raise ZeroDivisionError

    store.script.at = REPORTING
    with pytest.raises(ZeroDivisionError):
        evaluate()
    assert store.script.at is REPORTING
    assert read(replica) == [1, 2]


def test_the_lock_is_free_while_the_function_runs_so_that_others_can_be_answered(store: LiveStore) -> None:
    class Lock:
        """Counts how often it is held."""

        depth = 0

        def __enter__(self) -> None:
            self.depth += 1

        def __exit__(self, *_: object) -> None:
            self.depth -= 1

    lock = Lock()
    store.script.at = RUNNING
    with evaluating(store, store.script, lock):  # type: ignore[arg-type]
        assert lock.depth == 0
    assert lock.depth == 0


def test_a_script_that_saves_is_not_asked_for_a_number(store: LiveStore) -> None:
    script = ScriptState(IN_SAVE)
    with pytest.raises(IllegalCall), evaluating(store, script, RLock()):
        pass
    assert script.at is IN_SAVE
