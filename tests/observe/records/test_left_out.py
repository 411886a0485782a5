"""What is said of gradients that were left out."""

from weft.observe.records.left_out import LeftOut, Lines, is_to_be_told, summary


def test_the_worker_the_step_and_the_tensor_are_named() -> None:
    first, later = LeftOut(12, "the gradient of 'w'", 1), LeftOut(20, "parameter 'b'", 3)
    assert first.in_words(2) == "worker 2 leaves out its gradient of step 12: the gradient of 'w' is not finite"
    assert later.in_words(0) == (
        "worker 0 leaves out its gradient of step 20: parameter 'b' is not finite (3 steps so far)"
    )


def test_the_first_ones_are_told_one_by_one_and_then_fewer_and_fewer() -> None:
    told, before = [], None
    for number in range(1, 1001):
        now = LeftOut(number, "it", number)
        if is_to_be_told(before, now):
            told.append(number)
            before = now
    assert told == [1, 2, 3, 10, 100, 1000]


def test_one_that_is_heard_of_late_is_told_and_the_same_one_is_not_told_again() -> None:
    shown: list[str] = []
    lines = Lines(shown.append)
    lines.take(1, None)
    lines.take(1, LeftOut(7, "it", 2))
    lines.take(1, LeftOut(7, "it", 2))
    lines.take(0, LeftOut(7, "it", 1))
    assert [line[:8] for line in shown] == ["worker 1", "worker 0"]


def test_a_summary_counts_the_steps_of_each_worker() -> None:
    assert summary([0, 0]) == ""
    assert summary([1, 0, 1200]) == (
        "Gradients that were not finite were left out: 1 step of worker 0, 1,200 steps of worker 2."
    )
