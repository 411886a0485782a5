"""Figures of contenders and their order."""

import pytest
from support.ui.comparisons import among, comparison, measured, setup

from weft.observe.records.comparison import Contender
from weft.observe.report.figures import first_line, measure_of, ranked, standings


def test_the_order_is_by_time_then_by_what_was_reached_then_those_without_figures() -> None:
    table = standings(
        among(
            Contender("failed", error="\n no luck \nat all"),
            Contender("waiting"),
            Contender("bad", runs=[measured(None, 0.5)]),
            Contender("diverged", runs=[measured(None, None)]),
            Contender("good", runs=[measured(None, 0.9)]),
            Contender("slow", runs=[measured(5.0)]),
            Contender("fast", runs=[measured(2.0)]),
        )
    )
    assert [row.label for row in table.rows] == ["fast", "slow", "good", "bad", "diverged", "waiting", "failed"]
    assert [row.label for row in table.timed] == ["fast", "slow"]
    assert [row.label for row in table.standing] == ["fast", "slow", "good", "bad", "diverged"]
    assert table.rows[-1].error == "no luck"


def test_figures_are_medians_and_means_with_their_spread() -> None:
    runs = [measured(4.0, 0.97, 8.0, 500.0, 0.2, 10), measured(2.0, 0.98, 10.0, 300.0, 0.4, 30), measured(3.0, 0.99)]
    (row,) = standings(among(Contender("a", runs=runs))).rows
    assert (row.time_s, row.times_s, row.num_reached) == (3.0, (2.0, 4.0), 3)
    assert (row.final, row.finals) == (pytest.approx(0.98), (0.97, 0.99))
    assert (row.seconds, row.samples_per_s) == (10.0, 100.0)
    assert (row.waiting, row.bytes_per_worker, row.samples_to_target) == (None, None, None)
    (row,) = standings(among(Contender("a", runs=runs[:2]))).rows
    assert (row.waiting, row.bytes_per_worker, row.samples_to_target) == (pytest.approx(0.3), 20, 400.0)


def test_a_target_that_one_seed_missed_gives_no_time() -> None:
    (row,) = standings(among(Contender("a", runs=[measured(4.0), measured(None)]))).rows
    assert (row.time_s, row.times_s, row.num_reached, row.num_runs) == (None, None, 1, 2)


def test_without_a_target_the_time_is_that_of_the_whole_run() -> None:
    table = standings(among(Contender("a", runs=[measured(None, seconds=7.0)]), target=None))
    assert (table.rows[0].time_s, table.has_target, table.measure) == (7.0, False, "accuracy")


def test_others_are_compared_with_the_baseline_or_the_slowest() -> None:
    a, b = Contender("a", runs=[measured(2.0)]), Contender("b", runs=[measured(8.0)])
    ddp, late = Contender("ddp", True, [measured(4.0)]), Contender("ddp", True, [measured(None)])
    table = standings(among(a, b, ddp))
    assert table.reference is not None
    assert table.reference.label == "ddp"
    assert [table.speedup(row) for row in table.rows] == [2.0, 1.0, 0.5]
    table = standings(among(a, b, late))
    assert [table.speedup(row) for row in table.rows] == [4.0, 1.0, None]
    assert standings(among(a)).reference is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([1.0, 3.0], [2.0, 4.0], True),
        ([1.0, 2.0], [2.1, 4.0], False),
        ([1.0], [1.19], True),
        ([1.0], [1.21], False),
        ([1.0, 1.0], [1.19, 1.19], True),
        ([1.0, 1.0, 1.0], [1.04, 1.04, 1.04], True),
        ([1.0, 1.0, 1.0], [1.06, 1.06, 1.06], False),
        ([1.0, 1.0, 1.1], [1.08, 1.2, 1.3], True),
        ([1.0], [0.5, 1.5, 1.6], False),
    ],
)
def test_overlapping_seeds_and_hardly_different_times_are_about_as_fast(
    one: list[float], other: list[float], equal: bool
) -> None:
    table = standings(
        among(Contender("a", runs=list(map(measured, one))), Contender("b", runs=list(map(measured, other))))
    )
    first, second = table.rows
    assert table.are_equal(first, second) is table.are_equal(second, first) is equal
    assert table.winner is (None if equal else first)


@pytest.mark.parametrize(("other", "equal"), [(1.14, True), (1.16, False)])
def test_simulated_times_are_as_exact_as_simulations_are(other: float, equal: bool) -> None:
    asked = among(Contender("a", runs=[measured(1.0)] * 3), Contender("b", runs=[measured(other)] * 3))
    asked.setup = setup(3, asked.setup.target, "edge")
    table = standings(asked)
    assert table.are_equal(*table.rows) is equal


def test_a_run_whose_loss_or_measure_is_not_finite_gives_no_time_for_all_samples() -> None:
    blown = measured(None, 0.97, seconds=1.0)
    blown.final["loss"] = float("nan")
    table = standings(
        among(Contender("a", runs=[blown, measured(None)]), Contender("b", runs=[measured(None)]), target=None)
    )
    assert [(row.label, row.time_s, row.num_diverged) for row in table.rows] == [("b", 10.0, 0), ("a", None, 1)]


def test_what_has_no_time_is_not_about_as_fast_as_anything() -> None:
    table = standings(among(Contender("a", runs=[measured(None)]), Contender("b", runs=[measured(1.0)])))
    assert not table.are_equal(*table.rows)
    assert standings(among(Contender("a", runs=[measured(None)]))).winner is None


def test_the_number_that_counts_is_the_targets_or_the_first_that_is_no_loss() -> None:
    assert measure_of(comparison()) == "accuracy"
    assert measure_of(comparison(target=None)) == "accuracy"
    assert measure_of(among(target=None)) is None


def test_contenders_follow_the_table() -> None:
    asked = comparison()
    table = standings(asked)
    assert [each.label for each in ranked(asked, table)] == [row.label for row in table.standing]


def test_an_error_without_words_still_says_something() -> None:
    assert first_line(" \n ") == "it failed without a word"
