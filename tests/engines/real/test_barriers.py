"""Reports and saves of all workers: who is chosen, and what they told."""

from weft.engines.real.barriers import Barrier, arrived, left_to, welcome
from weft.runtime.messages import Reported


def reported(numbers: dict[str, float]) -> Reported:
    return Reported(0, 0, numbers, [], 0.0)


def test_the_first_to_come_is_chosen_where_all_models_are_alike_else_the_last() -> None:
    alike, apart = Barrier(0, True), Barrier(0, True)
    for rank in range(2):
        alike.came[rank] = apart.came[rank] = reported({})
        assert alike.chooses(rank, {0, 1}, is_alike=True) is (rank == 0)
        assert apart.chooses(rank, {0, 1}, is_alike=False) is (rank == 1)


def test_nobody_waits_for_a_worker_that_is_lost() -> None:
    barrier = Barrier(0, True, {0: reported({}), 2: reported({})})
    assert not barrier.has_all({0, 1, 2})
    assert barrier.has_all({0, 2})
    assert barrier.chooses(2, {0, 2}, is_alike=False)
    assert barrier.chosen == 2


def test_nobody_waits_for_a_newcomer_whose_script_begins_behind_the_barrier() -> None:
    barrier = Barrier(0, True, {0: reported({})})
    barrier.excused.add(1)
    assert not barrier.has_all({0, 1, 2})
    assert not barrier.chooses(0, {0, 1, 2}, is_alike=False)
    barrier.came[2] = reported({})
    assert barrier.has_all({0, 1, 2})
    assert barrier.chooses(2, {0, 1, 2}, is_alike=False)
    assert not Barrier(0, True, dict(barrier.came)).has_all({0, 1, 2}), "of later ones it is not excused"


def test_a_number_is_averaged_over_those_who_reported_it() -> None:
    barrier = Barrier(0, False, {0: reported({"a": 1.0, "b": 5.0}), 1: reported({"a": 3.0})})
    assert barrier.means() == {"a": 2.0, "b": 5.0}


def test_what_nobody_did_is_left_to_the_first_worker_if_it_came() -> None:
    done = Barrier(0, True, {0: reported({})}, chosen=0)
    barriers = {3: Barrier(0, True, {0: reported({})}), 1: done, 2: Barrier(0, True)}
    assert left_to(0, barriers) == [3]
    assert left_to(1, barriers) == []


def test_to_what_its_predecessor_came_and_its_sponsor_did_not_a_newcomer_comes_itself() -> None:
    both, ahead = Barrier(0, True, {0: reported({}), 1: reported({})}), Barrier(0, True, {0: reported({})})
    welcome(0, 1, [both, ahead])
    assert (both.excused, ahead.excused) == ({0}, set())
    assert not ahead.came, "what its predecessor told is void"
    assert arrived(both, {0, 1, 2}) == {1}
    assert left_to(0, {0: both, 1: ahead}) == []
    ahead.came[0] = reported({})
    assert left_to(0, {0: both, 1: ahead}) == [1]


def test_an_excuse_is_not_that_of_the_next_newcomer() -> None:
    barrier = Barrier(0, True, {0: reported({}), 2: reported({})}, excused={1})
    welcome(1, 3, [barrier])
    barrier.came[1] = reported({})
    assert arrived(barrier, {1, 3}) == {1}


def test_who_takes_over_from_a_newcomer_begins_behind_the_same_barriers() -> None:
    barrier = Barrier(0, True, {1: reported({})}, excused={0})
    welcome(2, 0, [barrier])
    assert barrier.excused == {0, 2}
    assert barrier.has_all({0, 1, 2})
