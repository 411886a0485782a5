"""What is said of gradients that were left out."""

import pytest

from weft.core.errors import NotFinite
from weft.observe.records.left_out import LeftOut, Lines, is_to_be_told, refuse, summary


def test_the_worker_the_step_and_the_tensor_are_named() -> None:
    first, later = LeftOut(12, "the gradient of 'w'", 1, 12), LeftOut(20, "parameter 'b'", 3, 20)
    assert first.in_words(2) == "worker 2 leaves out its gradient of step 12: the gradient of 'w' is not finite"
    assert later.in_words(0) == (
        "worker 0 leaves out its gradient of step 20: parameter 'b' is not finite (3 steps so far)"
    )


def test_the_first_ones_are_told_one_by_one_and_then_fewer_and_fewer() -> None:
    told, before = [], None
    for number in range(1, 1001):
        now = LeftOut(number, "it", number, number)
        if is_to_be_told(before, now):
            told.append(number)
            before = now
    assert told == [1, 2, 3, 10, 100, 1000]


def test_one_that_is_heard_of_late_is_told_and_the_same_one_is_not_told_again() -> None:
    shown: list[str] = []
    lines = Lines(shown.append)
    lines.take(1, None)
    lines.take(1, LeftOut(7, "it", 2, 7))
    lines.take(1, LeftOut(7, "it", 2, 7))
    lines.take(0, LeftOut(7, "it", 1, 7))
    assert [line[:8] for line in shown] == ["worker 1", "worker 0"]


def test_one_that_takes_a_worker_s_place_is_told_of_from_its_first_on() -> None:
    shown: list[str] = []
    lines = Lines(shown.append)
    for number in (1, 2, 3, 4, 5, 1, 2):
        lines.take(1, LeftOut(number, "it", number, 1))
    assert len(shown) == 5


def test_a_summary_counts_the_steps_of_each_worker() -> None:
    assert summary([0, 0]) == ""
    assert summary([1, 0, 1200]) == (
        "Gradients that were not finite were left out: 1 step of worker 0, 1,200 steps of worker 2."
    )


def test_a_step_that_was_left_out_is_refused_with_its_loss_and_others_are_not() -> None:
    left_out = LeftOut(12, "the gradient of 'w'", 1, 12)
    refuse(None, 2, 12, 0.5)
    refuse(left_out, 2, 13, 0.5)
    with pytest.raises(NotFinite) as refused:
        refuse(left_out, 2, 12, 1 / 3)
    assert str(refused.value) == (
        "the gradient of 'w' of worker 2 is not finite at step 12, where its loss is 0.333333, and --on-nan "
        "(run.on_nan) is stop."
        "\n  Lower the learning rate if training has diverged, or look at the samples of that step; with "
        "exclude the run goes on without such gradients."
    )
    with pytest.raises(NotFinite, match="where its loss is not known"):
        refuse(left_out, 2, 12, None)
