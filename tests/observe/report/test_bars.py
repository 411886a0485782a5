"""Bars of a report."""

from xml.etree import ElementTree

import pytest

from weft.observe.report.bars import BINS_MAX, bin_width, histogram, race, shares


def pieces(markup: str) -> list[tuple[float, float, float, float, str | None]]:
    tree = ElementTree.fromstring(f"<div>{markup}</div>")
    filled = [each for each in tree.iter("rect") if each.get("class", "").startswith("fill")]
    places = [tuple(float(each.get(name, 0)) for name in ("x", "width", "y", "height")) for each in filled]
    return [(*place, each.findtext("title")) for place, each in zip(places, filled)]  # type: ignore[misc]


def test_the_slowest_seed_fills_the_width_and_whiskers_go_over_all_seeds() -> None:
    drawn = race([("a", "k0", 2.0, (1.0, 3.0), "2.0 s"), ("b", "k1", 4.0, (4.0, 4.0), "4.0 s")])
    assert [width for _, width, *_ in pieces(drawn)] == [500.0, 1000.0]
    whiskers = list(ElementTree.fromstring(drawn).iter("line"))
    assert [(line.get("x1"), line.get("x2")) for line in whiskers] == [("250", "750")]


def test_shares_follow_each_other_and_nothing_has_no_piece() -> None:
    drawn = shares("w", [("a-compute", "half", 0.5), ("a-input", "none", 0.0), ("a-wait", "rest", 0.3)])
    assert [(x, width, said) for x, width, _, _, said in pieces(drawn)] == [(0, 500, "half"), (500, 300, "rest")]


def test_a_histogram_shows_shares_of_all_updates() -> None:
    drawn = pieces(histogram("k0", {0: 3, 2: 1}))
    assert [(height, said) for _, _, _, height, said in drawn] == [
        (1000.0, "0 steps old: 75.0 % of the updates"),
        (0.0, "1 steps old: 0.0 % of the updates"),
        (333.33, "2 steps old: 25.0 % of the updates"),
    ]


@pytest.mark.parametrize(("oldest", "width"), [(0, 1), (BINS_MAX - 1, 1), (BINS_MAX, 2), (10 * BINS_MAX, 11)])
def test_many_ages_share_bars(oldest: int, width: int) -> None:
    assert bin_width(oldest) == width
    assert len(pieces(histogram("k0", {oldest: 1}))) <= BINS_MAX


def test_neighbouring_ages_are_counted_together() -> None:
    drawn = pieces(histogram("k0", {0: 1, 1: 1, 30: 2}))
    assert drawn[0][3:] == (1000.0, "0 to 1 steps old: 50.0 % of the updates")
    assert drawn[-1][3:] == (1000.0, "30 steps old: 50.0 % of the updates")
