"""One copy of the parameters: nobody updates while somebody reads, nobody reads on before all have updated."""

from collections.abc import Callable

from hosts import Host

from weft.core.names import Bucket
from weft.runtime.shared_params import COMMITTED, STEPPING, SharedParams
from weft.runtime.shared_reduce import READY

BUCKETS = (Bucket(100),)


class Waits:
    """Records what is waited for, and lets the test look at it."""

    def __init__(self) -> None:
        self.conditions: list[Callable[[], bool]] = []

    def __call__(self, condition: Callable[[], bool]) -> None:
        self.conditions.append(condition)


def begun(host: Host, rank: int, round: int) -> None:
    """A worker has given to this round's reduction."""
    arena = host.arenas[rank]
    arena.words[arena.reduction_line(0, 0, rank) + READY] = round


def word(host: Host, rank: int, which: int) -> int:
    return host.arenas[rank].words[host.arenas[rank].worker_line(rank) + which]


def test_an_update_waits_for_all_to_step_and_then_for_all_to_commit() -> None:
    host, waits, done = Host(2, BUCKETS), [Waits(), Waits()], []
    params = [SharedParams(host.arenas[rank], host.bells[rank], waits[rank]) for rank in range(2)]
    for rank in range(2):
        begun(host, rank, 1)
    params[0].update(lambda: done.append(0))
    stepping, committed = waits[0].conditions
    assert (stepping(), committed()) == (False, False)
    params[1].update(lambda: done.append(1))
    assert (stepping(), committed(), done) == (True, True, [0, 1])
    assert [word(host, rank, STEPPING) for rank in range(2)] == [1, 1]
    assert [word(host, rank, COMMITTED) for rank in range(2)] == [1, 1]
    host.close()


def test_a_worker_that_skips_its_step_does_not_hold_up_the_others() -> None:
    host, waits = Host(2, BUCKETS), Waits()
    begun(host, 0, 1)
    begun(host, 1, 1)
    SharedParams(host.arenas[0], host.bells[0], waits).update(lambda: None)
    assert not any(condition() for condition in waits.conditions)
    begun(host, 1, 2)
    assert all(condition() for condition in waits.conditions)
    host.close()


def test_the_version_is_the_number_of_the_reduction_so_skipped_steps_leave_gaps() -> None:
    host = Host(2, BUCKETS)
    params = SharedParams(host.arenas[0], host.bells[0], Waits())
    begun(host, 0, 7)
    params.update(lambda: None)
    assert (params.version, word(host, 0, COMMITTED)) == (7, 7)
    host.close()
