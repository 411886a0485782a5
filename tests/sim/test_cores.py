"""Cores are shared evenly by those who compute at the same time."""

from weft.sim.cores import Cores
from weft.sim.kernel import Kernel


def finished(
    num_cores: int, works: list[tuple[int, int, int]], hosts: tuple[int, ...] = (0, 0, 0, 0)
) -> dict[int, int]:
    """When workers are through, each with (worker, begin, nanoseconds of a core)."""
    kernel = Kernel()
    cores = Cores(kernel, hosts, num_cores)
    times: dict[int, int] = {}

    def note(worker: int) -> None:
        times[worker] = kernel.now_ns

    for worker, begin_ns, work_ns in works:
        kernel.at(begin_ns, cores.run, (worker, work_ns, note, (worker,)))
    kernel.run()
    return times


def test_each_has_a_core_while_there_are_enough() -> None:
    assert finished(2, [(0, 0, 100), (1, 0, 300)]) == {0: 100, 1: 300}


def test_more_workers_than_cores_take_longer_until_some_are_through() -> None:
    assert finished(2, [(w, 0, 100) for w in range(4)]) == dict.fromkeys(range(4), 200)
    # three on one core: 100 each by 300, of which the third has 100 left, alone
    assert finished(1, [(0, 0, 100), (1, 0, 100), (2, 0, 200)]) == {0: 300, 1: 300, 2: 400}


def test_who_comes_later_slows_down_those_who_run() -> None:
    assert finished(1, [(0, 0, 100), (1, 50, 100)]) == {0: 150, 1: 200}


def test_hosts_do_not_share_their_cores_with_each_other() -> None:
    assert finished(1, [(0, 0, 100), (1, 0, 100)], hosts=(0, 1)) == {0: 100, 1: 100}


def test_work_that_takes_no_time_is_done_at_once() -> None:
    assert finished(1, [(0, 10, 0)]) == {0: 10}


def test_what_the_dead_ran_is_never_done_and_the_others_have_their_core() -> None:
    kernel = Kernel()
    cores = Cores(kernel, (0, 0), 1)
    times: dict[int, int] = {}
    for worker in (0, 1):
        cores.run(worker, 100, lambda worker: times.update({worker: kernel.now_ns}), (worker,))
    kernel.at(100, cores.drop, (0,))
    kernel.at(120, cores.drop, (0,))  # again: there is nothing left to drop
    kernel.run()
    assert times == {1: 150}, "half of a core until 100, then all of it"
