"""Lines of a chart."""

from math import inf

import pytest
from support.ui.comparisons import HABITS, run

from weft.observe.records.comparison import ComparedRun
from weft.observe.report.series import POINTS_MAX, mean_line, reported, thinned, training_loss


def test_what_is_not_a_number_is_a_gap_not_a_0() -> None:
    reports: list[dict[str, float | None]] = [
        {"at_s": 1.0, "x": 0.5},
        {"at_s": 2.0, "x": None},
        {"at_s": 3.0, "x": inf},
        {"at_s": 4.0},
        {"x": 1.0},
    ]
    told = ComparedRun(0, 1.0, 1, 1.0, None, None, {}, reports, [], None, [], [])
    assert reported(told, "x") == [(1.0, 0.5)]
    assert training_loss(told) == []


def test_long_lines_are_thinned_to_means_and_end_where_they_ended() -> None:
    line = [(float(i), float(i % 2)) for i in range(10 * POINTS_MAX)]
    short = thinned(line)
    assert len(short) == POINTS_MAX
    assert short[0] == (4.5, 0.5)
    assert short[-1] == (line[-1][0], 0.5)
    assert thinned(line[:POINTS_MAX]) == line[:POINTS_MAX]


def test_the_mean_of_seeds_is_taken_at_equal_progress() -> None:
    fast, slow = [(1.0, 0.0), (2.0, 1.0)], [(2.0, 0.5), (3.0, 1.0), (4.0, 1.5)]
    assert mean_line([fast, slow]) == [(1.5, 0.25), (2.25, 0.75), (3.0, 1.25)]
    assert mean_line([[], fast]) == fast
    assert mean_line([[(1.0, 3.0)]]) == [(1.0, 3.0)]
    assert mean_line([[], []]) == []


def test_the_loss_of_a_run_has_as_many_points_as_can_be_seen() -> None:
    one = run(HABITS[0], 0, None)
    assert len(training_loss(one)) == POINTS_MAX
    assert training_loss(one)[-1][0] == pytest.approx(one.seconds)
