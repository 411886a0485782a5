"""How well a worker does, by what it tells of itself."""

from math import inf, nan

import pytest

from weft.core.errors import ConfigError
from weft.core.score import Score, best, check_reported


def score(name: str = "loss", *losses: float | None) -> Score:
    mine = Score(name)
    for loss in losses:
        mine.remember(loss)
    return mine


def test_who_has_told_nothing_stands_last() -> None:
    assert score().badness == inf
    assert score("loss", None).badness == inf


@pytest.mark.parametrize("name", ["loss", "test_error", "perplexity"])
def test_of_losses_errors_and_perplexities_the_smaller_is_better(name: str) -> None:
    mine = score(name)
    mine.report({name: 0.25})
    assert mine.badness == 0.25


def test_of_other_scores_the_larger_is_better() -> None:
    mine = score("accuracy", 1.0)
    mine.report({"accuracy": 0.25, "loss": 3.0})
    assert mine.badness == -0.25


def test_the_last_report_of_that_name_counts_whatever_is_reported_besides() -> None:
    mine = score()
    for numbers in ({"loss": 2.0}, {"loss": 1.0}, {"accuracy": 0.5}):
        mine.report(numbers)
    mine.remember(7.0)
    assert mine.badness == 1.0


def test_without_a_report_of_that_name_it_is_the_mean_training_loss_since_the_last_report() -> None:
    mine = score("accuracy", 1.0, None, 2.0)
    assert mine.badness == 1.5
    mine.report({})
    assert mine.badness == 1.5, "no step since: what was before it"
    mine.remember(8.0)
    assert mine.badness == 8.0
    mine.report({})
    mine.report({})
    assert mine.badness == 8.0


def test_what_is_not_a_number_stands_last() -> None:
    mine = score("loss", nan)
    assert mine.badness == inf
    mine.report({"loss": nan})
    assert mine.badness == inf


def test_a_script_that_reports_other_numbers_than_the_score_is_refused() -> None:
    check_reported("election", "accuracy", {"accuracy": 0.5, "loss": 1.0})
    check_reported("election", "accuracy", {})
    check_reported("election", "loss", {"accuracy": 0.5})
    with pytest.raises(ConfigError) as refused:
        check_reported("population", "acuracy", {"accuracy": 0.5})
    assert str(refused.value) == (
        "the population goes by 'acuracy', which the script does not report.\n  Did you mean 'accuracy'?"
    )


def test_the_best_has_the_smallest_badness_and_ties_go_to_the_lowest_rank() -> None:
    assert best({0: 2.0, 2: 1.0, 1: 1.0}) == 1
    assert best({1: inf, 0: inf}) == 0
    assert best({}) == 0
