"""Lists for narrow screens."""

import pytest

from weft.cli.show import listing as module
from weft.cli.show.listing import show_listing


def test_names_stand_beside_their_lines_which_are_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.screen, "width", 30)
    show_listing("codecs", [("fp16", ["16 bits for each number, right to 11.", "", "[2.0 times]"]), ("x", ["y"])])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "codecs",
        "fp16  16 bits for each number,",
        "      right to 11.",
        "      [2.0 times]",
        "x     y",
    ]
