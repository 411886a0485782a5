"""Frames of the parts of a report."""

from weft.observe.report.markup import tag
from weft.observe.report.sections import pictured, section, unbroken


def test_a_part_has_a_title_a_picture_and_a_caption() -> None:
    assert section("a & b", tag("p", "x")) == "<section><h2>a &amp; b</h2><p>x</p></section>"
    figure = "<figure><svg></svg><figcaption>3\N{NO-BREAK SPACE}s</figcaption></figure>"
    assert pictured("a", tag("svg"), "3 s") == f"<section><h2>a</h2>{figure}</section>"


def test_numbers_stay_with_their_units() -> None:
    said = unbroken("4 min 10 s of 5 % and 2 samples, 3 seconds")
    assert said.replace("\N{NO-BREAK SPACE}", "_") == "4_min 10_s of 5_% and 2 samples, 3 seconds"
