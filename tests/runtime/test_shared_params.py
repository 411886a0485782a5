"""One copy of the parameters: nobody updates while somebody reads, nobody reads on before all have updated."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.processes.one_host import Host

from weft.core.errors import ConfigError, Deadlock
from weft.core.names import Bucket
from weft.runtime.reduce.shared import ENDED, READY
from weft.runtime.shared_params import COMMITTED, STEPPING, SharedParams

BUCKETS = (Bucket(100),)


class Waits:
    """Records what is waited for, and lets the test look at it."""

    def __init__(self) -> None:
        self.conditions: list[Callable[[], bool]] = []

    def __call__(self, condition: Callable[[], bool]) -> None:
        self.conditions.append(condition)


def shared(host: Host, rank: int, waits: Callable[[Callable[[], bool]], None]) -> SharedParams:
    views = [host.arenas[rank].view("params", 0)]
    return SharedParams(host.arenas[rank], host.bells[rank], waits, views, lambda bucket, place: f"tensor of {place}")


def spinning(condition: Callable[[], bool]) -> None:
    """Waits for two seconds at most, so that a thread which is left alone ends."""
    until = time.monotonic() + 2
    while not condition() and time.monotonic() < until:
        os.sched_yield()


def together(params: list[SharedParams]) -> None:
    """All workers update at once, in threads; raises what one of them raises."""
    with ThreadPoolExecutor(len(params)) as pool:
        for update in [pool.submit(each.update, lambda: None) for each in params]:
            update.result()


def begun(host: Host, rank: int, round: int) -> None:
    """A worker has given to this round's reduction."""
    arena = host.arenas[rank]
    arena.words[arena.reduction_line(0, 0, rank) + READY] = round


def word(host: Host, rank: int, which: int) -> int:
    return host.arenas[rank].words[host.arenas[rank].worker_line(rank) + which]


def test_an_update_waits_for_all_to_step_and_then_for_all_to_commit() -> None:
    host, waits, done = Host(2, BUCKETS), [Waits(), Waits()], []
    params = [shared(host, rank, waits[rank]) for rank in range(2)]
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


def test_a_worker_that_skips_a_step_which_others_make_is_named() -> None:
    host, waits = Host(2, BUCKETS), Waits()
    begun(host, 0, 1)
    begun(host, 1, 1)
    shared(host, 0, waits).update(lambda: None)
    assert not any(condition() for condition in waits.conditions)
    begun(host, 1, 2)
    with pytest.raises(ConfigError, match="worker 1 skipped a step that worker 0 makes"):
        waits.conditions[0]()
    host.close()


class Meanwhile:
    """Words of which something else changes after so many looks."""

    def __init__(self, words: Any, num_looks: int, change: Callable[[], None]) -> None:
        self._words = words
        self._num_looks = num_looks
        self._change = change

    def __getitem__(self, place: int) -> int:
        value: int = self._words[place]
        self._num_looks -= 1
        if not self._num_looks:
            self._change()
        return value


@pytest.mark.parametrize("num_looks", [1, 2, 3])
def test_a_worker_that_commits_and_goes_on_between_two_looks_has_skipped_nothing(num_looks: int) -> None:
    host, waits = Host(2, BUCKETS), Waits()
    begun(host, 0, 1)
    begun(host, 1, 1)
    shared(host, 0, waits).update(lambda: None)
    words = host.arenas[0].words

    def commit_and_go_on() -> None:
        line = host.arenas[1].worker_line(1)
        words[line + STEPPING] = words[line + COMMITTED] = 1
        begun(host, 1, 2)

    host.arenas[0].words = Meanwhile(words, num_looks, commit_and_go_on)  # type: ignore[assignment]
    committed = waits.conditions[1]
    assert [committed(), committed()][1]
    host.arenas[0].words = words
    host.close()


def test_what_a_script_wrote_to_its_parameters_counts_once_each_worker_for_its_stretch() -> None:
    host = Host(2, BUCKETS)
    params = [shared(host, rank, spinning) for rank in range(2)]
    master, views = host.arenas[0].array("params", 0), [arena.view("params", 0) for arena in host.arenas]
    for rank in range(2):
        begun(host, rank, 1)
    master[:] = 1.0
    for view in views:
        view *= 0.5  # a decay by hand, on every worker alike
    assert not any(one.has_been_written for one in params)
    for _ in range(2):
        together(params)
    assert all(one.has_been_written for one in params)
    assert (master == 0.5).all()
    assert all((view == 0.5).all() for view in views)
    host.close()


@pytest.mark.parametrize("others", [pytest.param((), marks=pytest.mark.slow), (99,), (7,)])
def test_what_scripts_did_not_write_alike_is_refused_with_worker_and_tensor(others: tuple[int, ...]) -> None:
    host = Host(2, BUCKETS)
    params = [shared(host, rank, spinning) for rank in range(2)]
    for rank in range(2):
        begun(host, rank, 1)
    params[1]._views[0][7] = 3.0
    for place in others:
        params[0]._views[0][place] = 8.0
    with pytest.raises(ConfigError) as refused:
        together(params[::-1])
    assert str(refused.value) == (
        "worker 1 has written to 'tensor of 7' between two steps what other workers have not, so their parameters "
        "would differ.\n  Write the same on every worker, or under a strategy where each has a replica of its own: "
        "gossip."
    )
    host.close()


def test_an_update_that_waits_says_for_whom_and_does_not_wait_for_who_has_ended() -> None:
    host, late = Host(3, BUCKETS), []
    for rank in range(3):
        begun(host, rank, 1)

    def look(condition: Callable[[], bool]) -> None:
        late.append(params.waits_for())
        params.check_alive()
        host.arenas[2].words[host.arenas[2].worker_line(2) + ENDED] = 1
        params.check_alive()

    params = shared(host, 0, look)
    with pytest.raises(Deadlock, match="waits for worker 2, whose script has ended"):
        params.update(lambda: None)
    assert late == [[1, 2]]
    host.close()


def test_the_version_is_the_number_of_the_reduction_so_skipped_steps_leave_gaps() -> None:
    host = Host(2, BUCKETS)
    params = shared(host, 0, Waits())
    begun(host, 0, 7)
    params.update(lambda: None)
    assert (params.version, word(host, 0, COMMITTED)) == (7, 7)
    host.close()
