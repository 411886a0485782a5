"""The vigil over a run: silence, stopped processes, and runs in which nothing can happen any more."""

import pytest

from weft.core.errors import Deadlock, NodeLost
from weft.engines.real.stopped_processes import STOPPED_S
from weft.engines.real.watchdog import SILENT_S, STUCK_S, Vigil
from weft.observe.records.status import LinkStatus, Status


def status(rank: int, step: int, *, is_waiting: bool = False, bytes_sent: int = 0, bytes_received: int = 0) -> Status:
    doing = "waits for the parameters of step 3 from worker 1" if is_waiting else "computes"
    links = [LinkStatus(1 - rank, 0.0, 0, 0.0, bytes_received)]
    counted = 0.0, None, 0.0, 0.0, 0.0, bytes_sent, 0, 0, None
    return Status(rank, 0.0, step, *counted, doing, is_waiting, links=links)


@pytest.mark.parametrize(
    ("heard", "ended"),
    [([0, 1], {}), ([], {}), ([1], {}), ([0, 1], {0: object()}), ([0, 1], {0: object(), 1: object()})],
    ids=["while it trains", "before anybody was heard of", "before it was heard of", "at its end", "at the end of all"],
)
def test_a_process_that_the_system_has_stopped_is_given_up_soon_wherever_its_script_is(
    heard: list[int], ended: dict[int, object]
) -> None:
    vigil = Vigil(2, moment=lambda rank: "after it had joined")
    for rank in heard:
        vigil.hear(status(rank, 3), 0.0)
    assert vigil.check(0.0, ended, {0: "S", 1: "S"}) is None
    assert vigil.check(1.0, ended, {0: "T", 1: "S"}) is None
    assert vigil.check(1.0 + STOPPED_S, ended, {0: "T", 1: "S"}) is None
    error = vigil.check(1.1 + STOPPED_S, ended, {0: "T", 1: "S"})
    assert isinstance(error, NodeLost)
    assert str(error) == (
        "worker 0 stopped answering after it had joined: its process is stopped.\n"
        "  Let it go on with kill -CONT, or find out who stopped it."
    )


def test_a_process_that_goes_on_in_between_is_not_given_up() -> None:
    vigil = Vigil(1)
    for tenth in range(100):
        assert vigil.check(tenth / 10, {}, {0: "S" if tenth % 15 == 0 else "t"}) is None


def test_a_network_that_carries_something_is_not_stuck_and_one_that_is_slow_has_patience() -> None:
    vigil = Vigil(1, patience_s=2.0)
    for tick in range(100):
        vigil.hear(status(0, 4, is_waiting=tick > 0), tick / 10)
    assert vigil.check(STUCK_S + 1.9, {}, {}) is None
    vigil.hear_network(4.0)
    assert vigil.check(4.0 + STUCK_S + 1.9, {}, {}) is None
    assert isinstance(vigil.check(4.0 + STUCK_S + 2.1, {}, {}), Deadlock)


def test_slow_steps_give_a_stopped_process_more_time() -> None:
    vigil = Vigil(1)
    vigil.hear(status(0, 0), 0.0)
    vigil.hear(status(0, 1), 10.0)
    assert vigil.check(10.0, {}, {0: "T"}) is None
    assert vigil.check(10.0 + 49.0, {}, {0: "T"}) is None
    assert isinstance(vigil.check(10.0 + 51.0, {}, {0: "T"}), NodeLost)


def test_a_process_that_runs_but_says_nothing_is_given_up_after_long() -> None:
    vigil = Vigil(1)
    vigil.hear(status(0, 8), 0.0)
    assert vigil.check(SILENT_S - 1, {}, {0: "R"}) is None
    error = vigil.check(SILENT_S + 1, {}, {0: "R"})
    assert str(error).startswith("worker 0 has said nothing for 31 s at step 8: it hangs.")


def test_a_run_in_which_everybody_waits_and_nothing_moves_is_a_deadlock() -> None:
    vigil, ended = Vigil(3), {1: object()}
    for rank in range(3):
        vigil.hear(status(rank, 4), 0.0)
    for tick in range(1, 50):
        for rank in (0, 2):
            vigil.hear(status(rank, 4, is_waiting=True), tick / 10)
        error = vigil.check(tick / 10, ended, {})
        assert (error is not None) == (tick / 10 > STUCK_S)
    assert isinstance(error, Deadlock)
    assert "worker 0, at step 4, waits for the parameters of step 3 from worker 1" in str(error)
    assert "ended: worker 1" in str(error)


def test_a_run_with_traffic_or_with_somebody_who_computes_is_no_deadlock() -> None:
    for moving in ({"bytes_sent": 1}, {"bytes_received": 1}, {"is_waiting": False}):
        vigil = Vigil(2)
        vigil.hear(status(0, 4), 0.0)
        vigil.hear(status(1, 4), 0.0)
        for tick in range(1, 50):
            vigil.hear(status(0, 4, is_waiting=True), tick / 10)
            changes = {"is_waiting": True, **moving}
            for name in changes.keys() - {"is_waiting"}:
                changes[name] = tick
            vigil.hear(status(1, 4, **changes), tick / 10)  # type: ignore[arg-type]
            assert vigil.check(tick / 10, {}, {}) is None


def test_workers_that_have_not_all_been_heard_of_are_not_judged() -> None:
    vigil = Vigil(2)
    vigil.hear(status(0, 0, is_waiting=True), 0.0)
    assert vigil.check(STUCK_S + 1, {}, {}) is None


def test_a_worker_that_is_silent_is_not_known_to_wait() -> None:
    vigil = Vigil(1)
    vigil.hear(status(0, 4), 0.0)
    vigil.hear(status(0, 4, is_waiting=True), 0.5)
    assert vigil.check(STUCK_S + 1.0, {}, {}) is None
    vigil.hear(status(0, 4, is_waiting=True), STUCK_S + 1.0)
    assert isinstance(vigil.check(STUCK_S + 1.0, {}, {}), Deadlock)


def test_who_waits_is_given_time_from_when_the_last_of_the_others_ended() -> None:
    vigil = Vigil(2)
    for rank in range(2):
        vigil.hear(status(rank, 4), 0.0)
    for tick in range(1, 200):
        vigil.hear(status(0, 4, is_waiting=True), tick / 10)
        if tick <= 100:
            vigil.hear(status(1, 4), tick / 10)  # it evaluates for long, and then ends
        error = vigil.check(tick / 10, {1: object()} if tick > 100 else {}, {})
        assert (error is not None) == (tick / 10 > 10.1 + STUCK_S)


def test_processes_are_named_so_that_people_find_them() -> None:
    vigil = Vigil(
        2, 0.0, lambda rank: f"worker {rank} (host {'ab'[rank]}, pid {4711 + rank})", lambda rank: "at step 4"
    )
    for rank in range(2):
        vigil.hear(status(rank, 4), 0.0)
    assert vigil.check(0.0, {}, {1: "T"}) is None
    stopped = vigil.check(STOPPED_S + 0.1, {}, {1: "T"})
    assert str(stopped).startswith("worker 1 (host b, pid 4712) stopped answering at step 4: its process is stopped.")
    silent = vigil.check(SILENT_S + 1, {1: object()}, {})
    assert str(silent).startswith("worker 0 (host a, pid 4711) has said nothing for 31 s at step 4: it hangs.")
    vigil.hear(status(0, 4, is_waiting=True), 40.0)
    vigil.hear(status(0, 4, is_waiting=True), 50.0)
    stuck = str(vigil.check(50.0, {1: object()}, {}))
    assert "  worker 0 (host a, pid 4711), at step 4, waits for the parameters of step 3 from worker 1\n" in stuck
    assert "  ended: worker 1 (host b, pid 4712)\n" in stuck
