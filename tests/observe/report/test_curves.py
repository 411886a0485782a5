"""The parts of a report that are lines over time."""

from collections.abc import Callable

import pytest
from support.ui.comparisons import HABITS, among, comparison, measured

from weft.observe.records.comparison import Comparison, Contender
from weft.observe.report.curves import consensus_section, learned_section, loss_section
from weft.observe.report.figures import Standings, standings
from weft.observe.report.markup import Markup
from weft.observe.report.palette import looks

Section = Callable[[Comparison, Standings, dict[str, str]], Markup | None]


def drawn(section: Section, asked: Comparison) -> str | None:
    return section(asked, standings(asked), looks(asked.contenders))


def test_what_was_learned_has_a_line_for_everybody_and_the_target() -> None:
    page = drawn(learned_section, comparison())
    assert page is not None
    assert "<h2>Accuracy over time</h2>" in page
    assert page.count("<li>") == len(HABITS) + 1
    assert page.count('class="seed') == 3 * len(HABITS)
    assert "reached by async_gossip after" in page
    assert "thin ones single seeds" in page


def test_without_a_target_the_best_end_is_told() -> None:
    page = drawn(learned_section, comparison(seeds=1, target=None))
    assert page is not None
    assert "ends best, with 0.97" in page
    assert "thin ones" not in page
    assert 'class="goal"' not in page


def test_losses_are_compared_when_the_first_is_done() -> None:
    page = drawn(loss_section, comparison())
    assert page is not None
    assert "When the first of them is done, after 5.8" in page
    assert "async_gossip is at 0.0" in page


def test_models_that_are_always_equal_are_said_to_be_not_drawn() -> None:
    page = drawn(consensus_section, comparison())
    assert page is not None
    assert page.count("<li>") == 2
    assert "Always 0, because all workers have the same model: allreduce share=proportional, quorum(k=3) and" in page
    assert "Not known of ddp." in page


@pytest.mark.parametrize("section", [learned_section, loss_section, consensus_section])
def test_what_nobody_told_is_left_out(section: Section) -> None:
    assert drawn(section, among(Contender("a", runs=[measured(1.0)]))) is None
    assert drawn(section, among(target=None)) is None


def test_models_that_never_differ_need_no_chart() -> None:
    assert drawn(consensus_section, comparison(HABITS[:3])) is None
