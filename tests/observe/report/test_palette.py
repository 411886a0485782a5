"""Who has which colour."""

from weft.core.activity import ACTIVITIES, SENDS
from weft.observe.records.comparison import Contender
from weft.observe.report.palette import ACTIVITIES_DARK, ACTIVITIES_LIGHT, DARK, LIGHT, looks, variables


def test_contenders_differ_by_colour_and_then_by_dash() -> None:
    many = [Contender(f"c{i}") for i in range(2 * len(LIGHT))]
    found = looks([Contender("ddp", is_baseline=True), *many])
    assert found["ddp"] == "kb dash0"
    assert [found["c0"], found["c1"], found["c6"]] == ["k0 dash0", "k1 dash0", "k0 dash1"]
    assert len(set(found.values())) == len(many) + 1


def test_every_activity_has_a_colour_in_both_themes() -> None:
    assert set(ACTIVITIES_LIGHT) == set(ACTIVITIES_DARK) == {*ACTIVITIES, SENDS}
    assert len(set(ACTIVITIES_LIGHT.values())) == len(set(ACTIVITIES_DARK.values())) == len(ACTIVITIES) + 1
    assert len(LIGHT) == len(DARK)


def luminance(colour: str) -> float:
    """How bright a colour is, as contrast is computed."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_lines_stand_out_from_their_page() -> None:
    assert all(1.05 / (luminance(colour) + 0.05) >= 2.9 for colour in LIGHT)
    dark_page = luminance("#14171b")
    assert all((luminance(colour) + 0.05) / (dark_page + 0.05) >= 4.5 for colour in DARK)
    assert variables("light") != variables("dark")
