"""The vigil over a run: silence, stopped processes, and runs in which nothing can happen any more."""

import pytest
from support.processes.records import status_with

from weft.core.errors import Deadlock, NodeLost
from weft.engines.real.timeouts import ALL_WAIT_S, PROCESS_STOPPED_S, WORKER_SILENT_S
from weft.engines.real.watchdog import Watchdog
from weft.observe.records.status import LinkStatus, Status


def status(rank: int, step: int, *, is_waiting: bool = False, bytes_sent: int = 0, bytes_received: int = 0) -> Status:
    doing = "waits for the parameters of step 3 from worker 1" if is_waiting else "computes"
    links = [LinkStatus(1 - rank, 0.0, 0, 0.0, bytes_received)]
    return status_with(rank=rank, step=step, bytes_sent=bytes_sent, doing=doing, is_waiting=is_waiting, links=links)


@pytest.mark.parametrize(
    ("heard", "ended"),
    [([0, 1], {}), ([], {}), ([1], {}), ([0, 1], {0: object()}), ([0, 1], {0: object(), 1: object()})],
    ids=["while it trains", "before anybody was heard of", "before it was heard of", "at its end", "at the end of all"],
)
def test_a_process_that_the_system_has_stopped_is_given_up_soon_wherever_its_script_is(
    heard: list[int], ended: dict[int, object]
) -> None:
    watchdog = Watchdog(2, moment=lambda rank: "after it had joined")
    for rank in heard:
        watchdog.hear(status(rank, 3), 0.0)
    assert watchdog.check(0.0, ended, {0: "S", 1: "S"}) is None
    assert watchdog.check(1.0, ended, {0: "T", 1: "S"}) is None
    assert watchdog.check(1.0 + PROCESS_STOPPED_S, ended, {0: "T", 1: "S"}) is None
    error = watchdog.check(1.1 + PROCESS_STOPPED_S, ended, {0: "T", 1: "S"})
    assert isinstance(error, NodeLost)
    assert str(error) == (
        "worker 0 stopped answering after it had joined: its process is stopped.\n"
        "  Let it go on with kill -CONT, or find out who stopped it."
    )


def test_a_process_that_goes_on_in_between_is_not_given_up() -> None:
    watchdog = Watchdog(1)
    for tenth in range(100):
        assert watchdog.check(tenth / 10, {}, {0: "S" if tenth % 15 == 0 else "t"}) is None


def test_a_network_that_carries_something_is_not_stuck_and_one_that_is_slow_has_patience() -> None:
    watchdog = Watchdog(1, patience_s=2.0)
    for tick in range(100):
        watchdog.hear(status(0, 4, is_waiting=tick > 0), tick / 10)
    assert watchdog.check(ALL_WAIT_S + 1.9, {}, {}) is None
    watchdog.hear_network(4.0)
    assert watchdog.check(4.0 + ALL_WAIT_S + 1.9, {}, {}) is None
    assert isinstance(watchdog.check(4.0 + ALL_WAIT_S + 2.1, {}, {}), Deadlock)


def test_slow_steps_give_a_stopped_process_more_time() -> None:
    watchdog = Watchdog(1)
    watchdog.hear(status(0, 0), 0.0)
    watchdog.hear(status(0, 1), 10.0)
    assert watchdog.check(10.0, {}, {0: "T"}) is None
    assert watchdog.check(10.0 + 49.0, {}, {0: "T"}) is None
    assert isinstance(watchdog.check(10.0 + 51.0, {}, {0: "T"}), NodeLost)


def test_a_process_that_runs_but_says_nothing_is_given_up_after_long() -> None:
    watchdog = Watchdog(1)
    watchdog.hear(status(0, 8), 0.0)
    assert watchdog.check(WORKER_SILENT_S - 1, {}, {0: "R"}) is None
    error = watchdog.check(WORKER_SILENT_S + 1, {}, {0: "R"})
    assert str(error).startswith("worker 0 has said nothing for 31 s at step 8: it hangs.")


def test_a_run_in_which_everybody_waits_and_nothing_moves_is_a_deadlock() -> None:
    watchdog, ended = Watchdog(3), {1: object()}
    for rank in range(3):
        watchdog.hear(status(rank, 4), 0.0)
    for tick in range(1, 50):
        for rank in (0, 2):
            watchdog.hear(status(rank, 4, is_waiting=True), tick / 10)
        error = watchdog.check(tick / 10, ended, {})
        assert (error is not None) == (tick / 10 > ALL_WAIT_S)
    assert isinstance(error, Deadlock)
    assert "worker 0, at step 4, waits for the parameters of step 3 from worker 1" in str(error)
    assert "ended: worker 1" in str(error)


def test_a_run_with_traffic_or_with_somebody_who_computes_is_no_deadlock() -> None:
    for moving in ({"bytes_sent": 1}, {"bytes_received": 1}, {"is_waiting": False}):
        watchdog = Watchdog(2)
        watchdog.hear(status(0, 4), 0.0)
        watchdog.hear(status(1, 4), 0.0)
        for tick in range(1, 50):
            watchdog.hear(status(0, 4, is_waiting=True), tick / 10)
            changes = {"is_waiting": True, **moving}
            for name in changes.keys() - {"is_waiting"}:
                changes[name] = tick
            watchdog.hear(status(1, 4, **changes), tick / 10)  # type: ignore[arg-type]
            assert watchdog.check(tick / 10, {}, {}) is None


def test_workers_that_wait_because_they_were_asked_to_are_in_no_deadlock_and_have_time_to_go_on() -> None:
    watchdog = Watchdog(2)
    for tick in range(100):
        for rank in range(2):
            watchdog.hear(status(rank, 4, is_waiting=True), tick / 10)
        watchdog.hold(tick / 10)
        assert watchdog.check(tick / 10, {}, {}) is None
    assert watchdog.check(9.9 + 0.9 * ALL_WAIT_S, {}, {}) is None


def test_a_newcomer_that_is_stopped_before_it_comes_in_is_stuck() -> None:
    watchdog = Watchdog(2)
    for rank in range(2):
        watchdog.hear(status(rank, 4), 0.0)
    watchdog.lose(1)
    watchdog.expect(1)
    assert watchdog.stuck(1.0, {}, {0: "S", 1: "T"}) is None
    stopped = watchdog.stuck(1.5 + PROCESS_STOPPED_S, {}, {0: "S", 1: "T"})
    assert stopped is not None
    assert stopped.rank == 1
    watchdog.lose(1)
    assert watchdog.stuck(9.0, {}, {0: "S", 1: "T"}) is None, "it is being killed"


def test_workers_that_have_not_all_been_heard_of_are_not_judged() -> None:
    watchdog = Watchdog(2)
    watchdog.hear(status(0, 0, is_waiting=True), 0.0)
    assert watchdog.check(ALL_WAIT_S + 1, {}, {}) is None


def test_a_worker_that_is_silent_is_not_known_to_wait() -> None:
    watchdog = Watchdog(1)
    watchdog.hear(status(0, 4), 0.0)
    watchdog.hear(status(0, 4, is_waiting=True), 0.5)
    assert watchdog.check(ALL_WAIT_S + 1.0, {}, {}) is None
    watchdog.hear(status(0, 4, is_waiting=True), ALL_WAIT_S + 1.0)
    assert isinstance(watchdog.check(ALL_WAIT_S + 1.0, {}, {}), Deadlock)


def test_who_waits_is_given_time_from_when_the_last_of_the_others_ended() -> None:
    watchdog = Watchdog(2)
    for rank in range(2):
        watchdog.hear(status(rank, 4), 0.0)
    for tick in range(1, 200):
        watchdog.hear(status(0, 4, is_waiting=True), tick / 10)
        if tick <= 100:
            watchdog.hear(status(1, 4), tick / 10)  # it evaluates for long, and then ends
        error = watchdog.check(tick / 10, {1: object()} if tick > 100 else {}, {})
        assert (error is not None) == (tick / 10 > 10.1 + ALL_WAIT_S)


def test_processes_are_named_so_that_people_find_them() -> None:
    watchdog = Watchdog(
        2, 0.0, lambda rank: f"worker {rank} (host {'ab'[rank]}, pid {4711 + rank})", lambda rank: "at step 4"
    )
    for rank in range(2):
        watchdog.hear(status(rank, 4), 0.0)
    assert watchdog.check(0.0, {}, {1: "T"}) is None
    stopped = watchdog.check(PROCESS_STOPPED_S + 0.1, {}, {1: "T"})
    assert str(stopped).startswith("worker 1 (host b, pid 4712) stopped answering at step 4: its process is stopped.")
    silent = watchdog.check(WORKER_SILENT_S + 1, {1: object()}, {})
    assert str(silent).startswith("worker 0 (host a, pid 4711) has said nothing for 31 s at step 4: it hangs.")
    watchdog.hear(status(0, 4, is_waiting=True), 40.0)
    watchdog.hear(status(0, 4, is_waiting=True), 50.0)
    stuck = str(watchdog.check(50.0, {1: object()}, {}))
    assert "  worker 0 (host a, pid 4711), at step 4, waits for the parameters of step 3 from worker 1\n" in stuck
    assert "  ended: worker 1 (host b, pid 4712)\n" in stuck


def test_a_worker_that_is_stuck_is_named_with_the_cause_before_it_is_given_up() -> None:
    watchdog = Watchdog(2)
    for rank in range(2):
        watchdog.hear(status(rank, 4), 0.0)
    assert watchdog.stuck(0.0, {}, {0: "S", 1: "T"}) is None
    stopped = watchdog.stuck(PROCESS_STOPPED_S + 0.5, {}, {0: "S", 1: "T"})
    assert stopped is not None
    assert (stopped.rank, stopped.cause) == (1, f"its process was stopped for {PROCESS_STOPPED_S + 0.5:.1f} s")
    silent = watchdog.stuck(WORKER_SILENT_S + 1, {1: object()}, {})
    assert silent is not None
    assert (silent.rank, silent.cause) == (0, "it said nothing for 31 s")


def test_a_lost_worker_is_neither_stuck_nor_waited_for_whatever_it_still_says() -> None:
    watchdog = Watchdog(3)
    watchdog.hear(status(0, 4), 0.0)
    watchdog.hear(status(1, 4), 0.0)
    watchdog.stuck(0.0, {}, {1: "T"})
    watchdog.lose(1)
    watchdog.lose(2)
    watchdog.hear(status(1, 4), 0.1)
    assert watchdog.check(0.2, {}, {1: "T"}) is None
    assert watchdog.stuck(PROCESS_STOPPED_S + 1, {}, {1: "T"}) is None
    for tick in range(1, 50):
        watchdog.hear(status(0, 4, is_waiting=True), tick / 10)
    assert isinstance(watchdog.check(4.9, {}, {1: "T"}), Deadlock), "worker 2 was never heard of, but is lost"
    watchdog.hear(status(0, 5), WORKER_SILENT_S + 5.0)
    assert watchdog.check(WORKER_SILENT_S + 5.0, {}, {}) is None


def test_who_waited_for_a_worker_is_given_time_from_when_that_one_was_lost() -> None:
    watchdog = Watchdog(2)
    watchdog.hear(status(1, 4), 0.0)
    for tenth in range(100):
        watchdog.hear(status(0, 4, is_waiting=tenth > 0), tenth / 10)
    watchdog.lose(1)
    assert watchdog.check(9.9, {}, {}) is None, "the members are changing"
    watchdog.hear(status(0, 4, is_waiting=True), 9.9 + ALL_WAIT_S)
    assert isinstance(watchdog.check(10.0 + ALL_WAIT_S, {}, {}), Deadlock)


def test_a_newcomer_is_watched_from_when_it_is_welcome_and_by_what_it_says_itself() -> None:
    watchdog = Watchdog(2)
    for rank in range(2):
        watchdog.hear(status(rank, 4), 0.0)
    watchdog.lose(1)
    assert watchdog.stuck(1.0, {}, {0: "S", 1: "T"}) is None
    watchdog.hear(status(0, 4), 50.0)
    watchdog.welcome(1)
    assert watchdog.stuck(50.0, {}, {0: "S", 1: "S"}) is None, "the silence of the lost one does not count"
    watchdog.hear(status(1, 4), 50.0)
    watchdog.hear(status(0, 4), 52.0 + WORKER_SILENT_S)
    silent = watchdog.stuck(51.0 + WORKER_SILENT_S, {}, {})
    assert silent is not None
    assert (silent.rank, silent.cause) == (1, "it said nothing for 31 s")
    watchdog.hear(status(1, 4), 90.0)
    assert watchdog.stuck(90.0, {}, {1: "T"}) is None
    stopped = watchdog.stuck(90.5 + PROCESS_STOPPED_S, {}, {1: "T"})
    assert stopped is not None
    assert stopped.rank == 1


def test_a_run_is_not_judged_before_its_newcomer_was_heard_of() -> None:
    watchdog = Watchdog(2)
    watchdog.hear(status(0, 4), 0.0)
    watchdog.lose(1)
    watchdog.check(0.0, {}, {})
    watchdog.welcome(1)
    for tenth in range(100):
        watchdog.hear(status(0, 4, is_waiting=True), tenth / 10)
    assert watchdog.check(9.9, {}, {}) is None
    watchdog.hear(status(1, 4), 9.9)
    for tenth in range(100, 200):
        for rank in range(2):
            watchdog.hear(status(rank, 4, is_waiting=True), tenth / 10)
    assert isinstance(watchdog.check(19.9, {}, {}), Deadlock)


def test_who_waited_for_a_newcomer_is_given_time_from_when_that_one_was_lost_too() -> None:
    watchdog = Watchdog(2)
    watchdog.hear(status(0, 4), 0.0)
    watchdog.lose(1)
    watchdog.check(0.0, {}, {})
    watchdog.welcome(1)
    watchdog.hear(status(1, 4), 0.0)
    for tenth in range(100):
        watchdog.hear(status(0, 4, is_waiting=tenth > 0), tenth / 10)
    watchdog.lose(1)
    assert watchdog.check(9.9, {}, {}) is None, "the members are changing once more"
    watchdog.hear(status(0, 4, is_waiting=True), 9.9 + ALL_WAIT_S)
    assert isinstance(watchdog.check(10.0 + ALL_WAIT_S, {}, {}), Deadlock)
