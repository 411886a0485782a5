"""The parts of a report about single workers."""

from support.ui.comparisons import HABITS, Habit, among, comparison, measured

from weft.observe.records.comparison import Contender
from weft.observe.report.figures import standings
from weft.observe.report.palette import looks
from weft.observe.report.workers import staleness_section, time_section, timeline_section, worker_shares

UNKNOWN = among(Contender("a", runs=[measured(1.0)]))


def test_time_is_shown_for_those_that_were_looked_into() -> None:
    asked = comparison()
    page = time_section(asked, standings(asked))
    assert page is not None
    assert page.count('class="card"') == len(HABITS) - 1
    assert "the workers of local_sgd(every=8) waited most, 58\N{NO-BREAK SPACE}% of their time" in page
    assert "Not known of ddp." in page
    assert "worker 1 waiting, 76 %" in page


def test_what_the_live_view_said_last_of_a_slow_worker_is_said_once_for_each_contender() -> None:
    asked = comparison(HABITS[4:5])
    first, second, _ = asked.contenders[0].runs
    first.blame[:] = ["worker 0 is slow: 3 ms", "worker 1 is slow: 5 ms", "worker 0 is slow: <4 ms"]
    second.blame[:] = ["worker 0 is slow: 9 ms"]
    page = time_section(asked, standings(asked))
    assert page is not None
    items = "<li>async_gossip: worker 0 is slow: &lt;4 ms</li><li>async_gossip: worker 1 is slow: 5 ms</li>"
    assert f'<ul class="notes">{items}</ul>' in page


def test_shares_are_means_over_seeds_and_unknown_if_one_is() -> None:
    asked = comparison()
    assert worker_shares(asked, asked.contenders[0]) == {}
    assert worker_shares(asked, asked.contenders[4])[0] == {"compute": 0.92, "input": 0.08, "wait": 0.0, "pause": 0.0}


def test_ages_have_a_scale_each_and_those_always_fresh_are_named() -> None:
    asked = comparison()
    asked.contenders[1].runs[0].staleness.clear()
    page = staleness_section(asked, standings(asked), looks(asked.contenders))
    assert page is not None
    assert [page.count(f">{oldest} steps old</span>") for oldest in (0, 1, 3, 5)] == [0, 1, 1, 1]
    assert "Here the updates of async_gossip are the oldest, 1.8 steps on average and 5 at most." in page
    assert "Always fresh: allreduce share=proportional. Not known of ddp and local_sgd(every=8)." in page


def test_lanes_say_who_waited_and_have_one_scale() -> None:
    asked = comparison()
    page = timeline_section(asked, standings(asked))
    assert page is not None
    assert "all on the same time scale" in page
    assert page.count("168.0 ms</span>") == len(HABITS) - 1
    assert "async_gossip 0\N{NO-BREAK SPACE}%" in page


def test_very_different_stretches_have_a_scale_each() -> None:
    asked = comparison([HABITS[4], Habit("slow", (4.0, 1.0, 1.0, 1.0))])
    page = timeline_section(asked, standings(asked))
    assert page is not None
    assert "each on its own time scale" in page
    assert "16.8 s</span>" in page


def test_of_many_workers_some_are_shown_and_it_is_said() -> None:
    asked = comparison([Habit("wide", (0.04, *[0.01] * 39), waits=True)])
    page = time_section(asked, standings(asked))
    assert page is not None
    assert "Shown are 16 of 40 workers, slow ones first." in page


def test_what_nobody_measured_is_left_out() -> None:
    assert time_section(UNKNOWN, standings(UNKNOWN)) is None
    assert staleness_section(UNKNOWN, standings(UNKNOWN), looks(UNKNOWN.contenders)) is None
    assert timeline_section(UNKNOWN, standings(UNKNOWN)) is None
    fresh = comparison(HABITS[:2])
    assert staleness_section(fresh, standings(fresh), looks(fresh.contenders)) is None
