"""Workers' digests are compared, tensor by tensor."""

import pytest

from weft.core.consensus import APART_MAX, END, Consensus, Look
from weft.core.errors import ReplicasDiffer


def test_replicas_with_the_same_digests_at_the_same_step_are_equal() -> None:
    consensus = Consensus(3)
    for worker in (2, 0, 1):
        assert consensus.distance(0) is None
        consensus.take(worker, 0, Look(8, {"a": 1, "b": 2}))
    assert consensus.distance(0) == 0.0
    assert consensus.distance(END) is None


def test_a_difference_names_the_worker_and_the_first_tensor() -> None:
    consensus = Consensus(3)
    consensus.take(0, END, Look(8, {"a": 1, "b": 2, "c": 3}))
    consensus.take(1, END, Look(8, {"a": 1, "b": 2, "c": 3}))
    with pytest.raises(ReplicasDiffer) as differ:
        consensus.take(2, END, Look(8, {"a": 1, "b": 5, "c": 5}))
    assert str(differ.value) == (
        "'b' and 1 more of worker 2 differs from worker 0's after step 8, though this strategy keeps all replicas "
        "equal.\n  Look for what the script writes to its model on some workers only: let all write the same."
    )


def test_workers_at_other_steps_are_not_compared_and_then_the_distance_is_not_known() -> None:
    consensus = Consensus(3)
    consensus.take(0, 4, Look(8, {"a": 1}))
    consensus.take(1, 4, Look(9, {"a": 2}))
    consensus.take(2, 4, Look(8, {"a": 1}))
    assert consensus.distance(4) is None
    consensus.take(0, 5, Look(9, {"a": 1}))
    consensus.take(1, 5, Look(8, {"a": 2}))
    with pytest.raises(ReplicasDiffer, match="'a' of worker 2 differs from worker 0's after step 9"):
        consensus.take(2, 5, Look(9, {"a": 3}))


OLD, NEW = "Old [1]", "New [2]"


def look(digest: int, processor: str, *sums: float) -> Look:
    return Look(8, {"a": 1, "b": digest}, {"a": [4.0, 1.0, 1.0], "b": [2.0, *sums]}, processor)


def test_what_processors_of_different_kinds_round_differently_is_borne_and_told_once() -> None:
    consensus, told = Consensus(3), []
    for number in (0, 1):
        told += [consensus.take(0, number, look(1, OLD, 0.0, 1.0)), consensus.take(1, number, look(1, OLD, 0.0, 1.0))]
        told += [consensus.take(2, number, look(2, NEW, 3e-6, 1.0 + 4e-6))]
        assert consensus.distance(number) == pytest.approx(2.5e-6)
    assert [text for text in told if text] == [
        "replicas are not equal bit by bit: processors of worker 0 (Old [1]) and worker 2 (New [2]) round differently. "
        "'b' is farthest apart after step 8, by 2.5e-06 of its norm; up to 0.001 is borne."
    ]


@pytest.mark.parametrize(
    ("processor", "sums", "farther"),
    [
        (OLD, (0.0, 1.0 + 1e-6), ""),
        (NEW, (0.0, 1.0 + 2.1 * APART_MAX), " by more than their processors' rounding"),
        (NEW, (0.0, float("nan")), " by more than their processors' rounding"),
    ],
)
def test_what_rounding_does_not_explain_is_an_error(processor: str, sums: tuple[float, ...], farther: str) -> None:
    consensus = Consensus(2)
    consensus.take(0, END, look(1, OLD, 0.0, 1.0))
    with pytest.raises(ReplicasDiffer) as differ:
        consensus.take(1, END, look(2, processor, *sums))
    assert str(differ.value).startswith(f"'b' of worker 1 differs from worker 0's{farther} after step 8, though")


def test_a_tensor_that_only_one_of_them_has_is_an_error_on_any_processor() -> None:
    consensus = Consensus(2)
    consensus.take(0, END, look(1, OLD, 0.0))
    with pytest.raises(ReplicasDiffer, match="'b' of worker 1 differs"):
        consensus.take(1, END, Look(8, {"a": 1}, {}, NEW))


def test_a_lost_worker_is_not_awaited_and_what_it_told_does_not_count() -> None:
    consensus = Consensus(3)
    consensus.take(0, END, Look(8, {"a": 9}))
    assert consensus.lose(0) == []
    consensus.take(2, END, Look(8, {"a": 1}))
    assert consensus.distance(END) is None
    consensus.take(1, END, Look(8, {"a": 1}))
    assert consensus.distance(END) == 0.0


def test_replicas_are_compared_as_soon_as_the_one_that_all_waited_for_is_lost() -> None:
    consensus = Consensus(3)
    for number in (0, 1):
        consensus.take(1, number, Look(8, {"a": 1}))
    consensus.take(2, 0, Look(8, {"a": 1}))
    assert consensus.lose(0) == []
    assert consensus.distance(0) == 0.0
    assert consensus.distance(1) is None
    consensus.take(2, 1, Look(8, {"a": 1}))
    assert consensus.distance(1) == 0.0


def test_without_worker_0_the_others_are_compared_with_the_first_of_them() -> None:
    consensus = Consensus(4)
    consensus.take(1, 0, look(1, OLD, 0.0, 1.0))
    consensus.take(3, 0, look(1, OLD, 0.0, 1.0))
    consensus.take(2, 0, look(2, NEW, 3e-6, 1.0 + 4e-6))
    (told,) = consensus.lose(0)
    assert told.startswith("replicas are not equal bit by bit: processors of worker 1 (Old [1]) and worker 2 (New [2])")
    consensus.take(1, END, Look(8, {"a": 1}))
    consensus.take(2, END, Look(8, {"a": 1}))
    with pytest.raises(ReplicasDiffer, match="'a' of worker 3 differs from worker 1's after step 8"):
        consensus.take(3, END, Look(8, {"a": 2}))


def test_a_newcomer_is_awaited_from_now_on_and_compared_with_the_others() -> None:
    consensus = Consensus(3)
    consensus.lose(1)
    consensus.welcome(1)
    for worker in (0, 2):
        consensus.take(worker, END, Look(8, {"a": 1}))
    assert consensus.distance(END) is None
    with pytest.raises(ReplicasDiffer, match="'a' of worker 1 differs from worker 0's after step 8"):
        consensus.take(1, END, Look(8, {"a": 2}))


def test_looks_that_were_not_compared_before_a_newcomer_came_are_forgotten_and_others_are_kept() -> None:
    consensus = Consensus(3)
    consensus.lose(1)
    for worker in (0, 2):
        consensus.take(worker, 0, Look(8, {"a": 1}))
    consensus.take(0, 1, Look(9, {"a": 7}))
    consensus.welcome(1)
    assert consensus.distance(0) == 0.0
    assert consensus.lose(1) == []
    assert consensus.take(2, 1, Look(9, {"a": 1})) is None, "what worker 0 told is not compared"
    assert consensus.distance(1) is None
    for worker in (0, 2):
        consensus.take(worker, 2, Look(10, {"a": 1}))
    assert consensus.distance(2) == 0.0
