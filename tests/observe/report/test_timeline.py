"""Lanes of workers."""

from xml.etree import ElementTree

from support.ui.comparisons import setup

from weft.observe.records.comparison import Setup, Span, WorkerFigures
from weft.observe.report.timeline import (
    LANES_MAX,
    activity_legend,
    common_length,
    lanes,
    share_of,
    shown_workers,
    stretch,
)


def worker(rank: int, *spans: Span) -> WorkerFigures:
    return WorkerFigures(rank, 1, 1.0, 0.5, 0.0, 0.5, 0.0, 0, list(spans))


def test_a_lane_shows_what_a_worker_did_when() -> None:
    drawn = lanes([worker(3, ("send", 10.0, 10.5), ("compute", 10.0, 11.0), ("wait", 11.0, 12.0))], 10.0, 4.0)
    rects = [each for each in ElementTree.fromstring(f"<div>{drawn}</div>").iter("rect") if each.get("x")]
    assert [(each.get("x"), each.get("width"), each.get("y")) for each in rects] == [
        ("0", "250", "0"),
        ("250", "250", "0"),
        ("0", "125", "720"),
    ]
    said = ["worker 3 computing, 1.0 s", "worker 3 waiting, 1.0 s", "worker 3 sending, 500.0 ms"]
    assert [each.findtext("title") for each in rects] == said


def test_of_many_workers_the_slow_ones_are_shown_for_sure() -> None:
    many = [worker(rank) for rank in range(3 * LANES_MAX)]
    asked: Setup = setup(1, None)
    asked.slow["40"] = 2.0
    assert [each.rank for each in shown_workers(asked, many)] == [*range(LANES_MAX - 1), 40]


def test_a_stretch_is_that_of_all_workers() -> None:
    assert stretch([worker(0, ("compute", 2.0, 3.0)), worker(1, ("wait", 1.0, 2.5))]) == (1.0, 3.0)
    assert stretch([worker(0)]) is None


def test_stretches_have_one_scale_unless_short_ones_would_vanish() -> None:
    assert common_length([1.0, 2.0]) == 2.0
    assert common_length([1.0, 20.0]) is None


def test_sending_goes_on_beside_other_things_and_is_no_share_of_time() -> None:
    one = worker(0, ("compute", 0.0, 3.0), ("wait", 3.0, 4.0), ("send", 0.0, 4.0))
    assert share_of("wait", [one]) == 0.25
    assert share_of("wait", [worker(0)]) == 0.0


def test_the_legend_has_only_what_is_shown_in_the_order_of_activities() -> None:
    items = ElementTree.fromstring(activity_legend(["send", "wait", "compute"]))
    assert ["".join(item.itertext()) for item in items] == ["computing", "waiting", "sending"]
