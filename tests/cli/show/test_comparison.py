"""A comparison on the screen."""

import pytest
from support.ui.comparisons import among, comparison, measured

from weft.cli.show import comparison as module
from weft.cli.show.comparison import show_comparison
from weft.observe.records.comparison import Comparison, Contender


def shown(
    asked: Comparison, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int = 120
) -> list[str]:
    monkeypatch.setattr(module.screen, "width", width)
    show_comparison(asked)
    return capsys.readouterr().out.splitlines()


def cells(lines: list[str], label: str) -> list[list[str]]:
    rows = [line for line in lines if line.startswith(f"│ {label} ")]
    return [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]


def test_a_wide_screen_has_one_table_the_fastest_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(comparison(), capsys, monkeypatch)
    labels = [line.split()[1] for line in lines if line.startswith("│") and line.split()[1] != "│"]
    order = "async_gossip allreduce quorum(k=3) ssp(staleness=3) ddp local_sgd(every=8) gossip"
    assert labels == order.split()
    figures = ["ddp (baseline)", "16.0 s", "1.00", "2,991", "0.9786", "not known", "not known"]
    assert cells(lines, "ddp") == [figures]
    assert "train.py, 4 workers, 3 seeds, real runs" in lines[0]


def test_a_narrow_screen_has_two_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = among(Contender("[b]ssp", runs=[measured(2.0)]))
    lines = shown(asked, capsys, monkeypatch, 80)
    assert cells(lines, "[b]ssp") == [["[b]ssp", "2.0 s", "", "100"], ["[b]ssp", "0.9800", "not known", "not known"]]
    assert max(map(len, lines)) <= 80


def test_failed_ones_come_last_with_their_error_and_then_the_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, later = Contender("easgd", error="NodeLost: [red] gone\nmore"), Contender("ssp")
    lines = shown(among(failed, later, Contender("bmuf", runs=[measured(2.0)])), capsys, monkeypatch)
    assert cells(lines, "ssp")[0][1] == "not run yet"
    assert cells(lines, "easgd")[0][1:] == ["failed", "", "", "", "", ""]
    assert [*lines[-4:-2], "".join(lines[-2:])] == [
        "ssp has not run yet",
        "easgd failed: NodeLost: [red] gone",
        "bmuf is the only one that reached accuracy 0.97, in 2.0 s with one seed. There is nobody to compare it with; "
        "easgd failed.",
    ]
