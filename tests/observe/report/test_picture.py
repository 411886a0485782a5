"""The report as one picture."""

from pathlib import Path

import msgspec
import pytest
from support.ui.comparisons import HABITS, among, comparison, measured

from weft.observe.records.comparison import Comparison, Contender
from weft.observe.report.picture import write_png

pytestmark = pytest.mark.slow

FEW, OTHER = comparison(HABITS[:2], 1, 0.97), comparison(HABITS[:2], 1, 0.96)
COMPARISONS = {
    "whole": comparison(),
    "one seed, no target": comparison(HABITS[:2], 1, None),
    "nobody arrived": comparison(HABITS[4:], 1, 0.9999),
    "little known": among(Contender("a $x_1$", runs=[measured(1.0)])),
    "all failed": among(Contender("a", error="no")),
}


@pytest.mark.parametrize("asked", COMPARISONS.values(), ids=COMPARISONS)
def test_a_picture_is_drawn_whatever_is_known(asked: Comparison, tmp_path: Path) -> None:
    write_png(asked, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_equal_comparisons_have_equal_pictures(tmp_path: Path) -> None:
    for name, asked in (("a", FEW), ("b", msgspec.convert(msgspec.to_builtins(FEW), Comparison)), ("c", OTHER)):
        write_png(asked, tmp_path / name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c
