"""The kernel: callbacks in the order of time, then priority, then when they were asked for."""

from typing import Any

from weft.sim.kernel import FIRST, Kernel, to_ns


def test_seconds_become_whole_nanoseconds() -> None:
    assert [to_ns(seconds) for seconds in (0.0, 1.0, 1.5e-9, 0.1 + 0.2)] == [0, 10**9, 2, 300_000_000]


def test_callbacks_run_in_the_order_of_time_then_priority_then_asking() -> None:
    kernel = Kernel()
    ran: list[Any] = []
    kernel.at(20, ran.append, ("late",))
    kernel.at(10, ran.append, ("first asked",))
    kernel.at(10, ran.append, ("second asked",))
    kernel.at(10, ran.append, ("privileged",), FIRST)
    kernel.run()
    assert ran == ["privileged", "first asked", "second asked", "late"]


def test_what_a_callback_asks_for_now_comes_after_what_was_asked_for_before() -> None:
    kernel = Kernel()
    ran: list[Any] = []

    def ask() -> None:
        ran.append("asks")
        kernel.at(kernel.now_ns, ran.append, ("asked",))

    kernel.at(5, ask)
    kernel.at(5, ran.append, ("was there",))
    kernel.run()
    assert ran == ["asks", "was there", "asked"]


def test_time_is_that_of_the_callback_under_way() -> None:
    kernel, seen = Kernel(), []
    for time_ns in (1_500_000_000, 0):
        kernel.at(time_ns, lambda: seen.append((kernel.now_ns, kernel.now_s)))
    kernel.run()
    assert seen == [(0, 0.0), (1_500_000_000, 1.5)]


def test_stopping_ends_the_run_after_the_callback_under_way() -> None:
    kernel = Kernel()
    ran: list[Any] = []

    def stops() -> None:
        kernel.stop("enough")
        ran.append("stops")

    kernel.at(1, stops)
    kernel.at(1, ran.append, ("never",))
    kernel.run()
    assert ran == ["stops"]
    assert kernel.stopped_because == "enough"


def test_equal_times_never_compare_callbacks_or_arguments() -> None:
    kernel = Kernel()
    ran: list[Any] = []
    for argument in ({}, object(), None):
        kernel.at(0, ran.append, (argument,))
    kernel.run()
    assert len(ran) == 3
