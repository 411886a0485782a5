"""Charts of lines."""

from xml.etree import ElementTree

from weft.observe.report.lines import Curve, chart
from weft.observe.report.scales import Scale

X, Y = Scale(0.0, 10.0), Scale(0.0, 1.0)


def drawn(*curves: Curve, goal: tuple[float, str] | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{chart('c', 'hours', curves, X, Y, goal)}</div>")


def classed(tree: ElementTree.Element, word: str) -> list[ElementTree.Element]:
    return [each for each in tree.iter() if word in each.get("class", "").split()]


def test_a_line_goes_through_its_points_and_high_values_stand_high() -> None:
    (mean,) = [
        each for each in classed(drawn(Curve("a", "k0 dash0", [(0, 0), (5, 1)], [], False)), "mean") if each.get("d")
    ]
    assert mean.get("d") == "M0.0 1000.0L500.0 0.0"
    assert mean.findtext("title") == "a"


def test_single_seeds_are_thin_lines_and_one_seed_is_none() -> None:
    seeds = [[(0.0, 0.0), (1.0, 1.0)], [(0.0, 0.5), (1.0, 1.0)]]
    assert len(classed(drawn(Curve("a", "k0 dash0", seeds[0], seeds, False)), "seed")) == 2
    assert classed(drawn(Curve("a", "k0 dash0", seeds[0], seeds[:1], False)), "seed") == []


def test_dots_say_their_number_and_time() -> None:
    tree = drawn(Curve("a <b>", "k0 dash1", [(2.0, 0.25)], [], True))
    assert [hit.findtext("title") for hit in classed(tree, "hit")] == ["a <b>: 0.25 after 2.0 s"]
    assert classed(tree, "dot")[0].get("class") == "dot k0"


def test_the_goal_has_a_line_and_a_word_in_the_legend() -> None:
    tree = drawn(Curve("a", "k0 dash0", [(0, 0)], [], False), goal=(0.75, "target accuracy=0.75"))
    assert [line.get("y1") for line in classed(tree, "goal") if line.find("title") is not None] == ["250"]
    assert ["".join(item.itertext()) for item in tree.iter("li")] == ["a", "target accuracy=0.75"]


def test_round_numbers_stand_at_the_edges() -> None:
    tree = drawn(Curve("a", "k0 dash0", [(0, 0)], [], False))
    (xs,), (ys,) = classed(tree, "xs"), classed(tree, "ys")
    assert [name.text for name in classed(tree, "xname")] == ["hours"]
    assert [(span.text, span.get("style")) for span in xs][:2] == [("0", "left:0.00%"), ("2", "left:20.00%")]
    assert [(span.text, span.get("style")) for span in ys][-1] == ("1", "top:0.00%")
