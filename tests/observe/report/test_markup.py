"""Elements of a page."""

from weft.observe.report.markup import Markup, joined, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "a < b & c", tag("b", '"')) == "<p>a &lt; b &amp; c<b>&quot;</b></p>"
    assert joined(["<", Markup("<br>")]) == "&lt;<br>"


def test_attributes_are_escaped_shortened_and_left_out_when_none() -> None:
    drawn = tag("rect", class_='a"b', stroke_width=0.5, x=1 / 3, y=2.0, id=None)
    assert drawn == '<rect class="a&quot;b" stroke-width="0.5" x="0.33" y="2"></rect>'
