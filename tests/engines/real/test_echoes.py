"""What workers print before they join is shown once if their scripts leave alike, and else all of it."""

from weft.engines.real.echoes import LINES_MAX, Echoes
from weft.engines.real.timeouts import ECHO_HELD_S

Shown = list[tuple[int, str, bool]]


def echoes(num_workers: int = 3) -> tuple[Echoes, Shown]:
    shown: Shown = []
    return Echoes(num_workers, lambda rank, text, is_error: shown.append((rank, text, is_error))), shown


def test_scripts_that_leave_with_the_same_words_are_shown_once_whatever_the_order_of_their_streams() -> None:
    made, shown = echoes()
    for rank, order in ((1, (True, False)), (0, (False, True)), (2, (True, False))):
        for is_error in order:
            made.take(rank, f"error {is_error}", is_error, 0.0)
    made.end(have_left=True)
    assert shown == [(0, "error False", False), (0, "error True", True)]


def test_words_of_its_own_are_shown_and_an_echo_of_those_is_not() -> None:
    made, shown = echoes(4)
    for rank, text in ((0, "loading"), (1, "no disk"), (2, "no disk"), (3, "loading")):
        made.take(rank, text, False, 0.0)
    made.end(have_left=True)
    assert shown == [(0, "loading", False), (1, "no disk", False)]


def test_everything_is_shown_of_a_run_that_ended_otherwise() -> None:
    made, shown = echoes()
    for rank in (1, 2, 0):
        made.take(rank, "loading", False, 0.0)
    made.end(have_left=False)
    assert shown == [(0, "loading", False), (1, "loading", False), (2, "loading", False)]


def test_a_worker_that_has_joined_is_shown_at_once() -> None:
    made, shown = echoes()
    made.take(1, "loading", False, 0.0)
    assert shown == []
    made.release(1)
    made.take(1, "trains", False, 0.0)
    made.release(1)
    assert shown == [(1, "loading", False), (1, "trains", False)]


def test_lines_are_not_held_for_long() -> None:
    made, shown = echoes()
    made.take(1, "loading", False, 1.0)
    made.check(1.0 + ECHO_HELD_S - 0.1)
    assert shown == []
    made.check(1.0 + ECHO_HELD_S)
    assert shown == [(1, "loading", False)]


def test_a_worker_that_prints_very_much_is_shown() -> None:
    made, shown = echoes()
    for number in range(LINES_MAX + 1):
        made.take(1, str(number), False, 0.0)
    assert len(shown) == LINES_MAX + 1
