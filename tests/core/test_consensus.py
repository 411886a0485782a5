"""Workers' digests are compared, tensor by tensor."""

import pytest

from weft.core.consensus import END, Consensus
from weft.core.errors import ReplicasDiffer


def test_replicas_with_the_same_digests_at_the_same_step_are_equal() -> None:
    consensus = Consensus(3)
    for worker in (2, 0, 1):
        assert consensus.distance(0) is None
        consensus.take(worker, 0, 8, {"a": 1, "b": 2})
    assert consensus.distance(0) == 0.0
    assert consensus.distance(END) is None


def test_a_difference_names_the_worker_and_the_first_tensor() -> None:
    consensus = Consensus(3)
    consensus.take(0, END, 8, {"a": 1, "b": 2, "c": 3})
    consensus.take(1, END, 8, {"a": 1, "b": 2, "c": 3})
    with pytest.raises(ReplicasDiffer) as differ:
        consensus.take(2, END, 8, {"a": 1, "b": 5, "c": 5})
    assert str(differ.value) == (
        "'b' and 1 more of worker 2 differs from worker 0's after step 8, though this strategy keeps all replicas "
        "equal.\n  Look for what the script writes to its model on some workers only: let all write the same."
    )


def test_workers_at_other_steps_are_not_compared_and_then_the_distance_is_not_known() -> None:
    consensus = Consensus(3)
    consensus.take(0, 4, 8, {"a": 1})
    consensus.take(1, 4, 9, {"a": 2})
    consensus.take(2, 4, 8, {"a": 1})
    assert consensus.distance(4) is None
    consensus.take(0, 5, 9, {"a": 1})
    consensus.take(1, 5, 8, {"a": 2})
    with pytest.raises(ReplicasDiffer, match="'a' of worker 2 differs from worker 0's after step 9"):
        consensus.take(2, 5, 9, {"a": 3})
