"""Outcomes of runs on the screen."""

from typing import Any

import pytest

from weft.cli.show import outcomes as module
from weft.cli.show.outcomes import in_words, show_outcomes
from weft.engines.simulated.outcome import Outcome
from weft.sim.facts import Facts
from weft.sim.faults.kills import SimulatedLoss


def outcome(strategy: str, virtual_s: float = 2.0, dry: bool = False, **reported: float) -> Outcome:
    facts = Facts(2)
    facts.sent(0, 3_100_000)
    for worker in (0, 1):
        facts.step(worker, 1.0, 10.0, None if dry else 0.5)
    facts.compute_s, facts.finished_s = [0.5, 0.5], [virtual_s, virtual_s]
    facts.note("staleness", 3)
    if reported:
        facts.report(0, 1.0, reported)
    return Outcome(strategy, 2, 7, f"trace of {strategy}", facts, *((None, None) if dry else (1.5e-3, [])))


def shown(
    outcomes: list[Outcome], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> str:
    monkeypatch.setattr(module.screen, "width", width)
    show_outcomes(outcomes)
    return capsys.readouterr().out


def cells(out: str, strategy: str) -> list[list[str]]:
    rows = [line for line in out.splitlines() if line.startswith(f"│ {strategy} ")]
    return [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]


def test_a_wide_screen_has_one_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown([outcome("ssp", accuracy=0.25)], capsys, monkeypatch, 120)
    assert "2 simulated workers, 20 samples, seed 7" in out
    figures = ["ssp", "2.0 s", "10", "0.5000", "0.2500", "3.1 MB", "75 %", "3.0 / 3", "1.5e-03"]
    assert cells(out, "ssp") == [figures]
    assert "Traces, the same for the same seed:\n  trace of ssp  ssp\n" in out


def test_a_narrow_screen_has_two(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown([outcome("ssp", accuracy=0.25)], capsys, monkeypatch, 80)
    assert cells(out, "ssp") == [
        ["ssp", "2.0 s", "10", "3.1 MB", "75 %"],
        ["ssp", "0.5000", "0.2500", "3.0 / 3", "1.5e-03"],
    ]
    assert max(map(len, out.splitlines())) <= 80


def test_a_dry_run_has_learned_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = shown([outcome("ssp", dry=True)], capsys, monkeypatch, 80)
    assert cells(out, "ssp") == [["ssp", "2.0 s", "10", "3.1 MB", "75 %", "3.0 / 3"]]
    assert "consensus" not in out
    assert "loss" not in out


def test_several_strategies_are_one_table_and_a_number_that_one_did_not_report_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shown([outcome("ssp", accuracy=0.25), outcome("gossip", 1.0)], capsys, monkeypatch, 120)
    assert out.count("┏") == 1
    assert cells(out, "gossip")[0][4] == ""
    assert "Fastest: gossip, 1.0 s; slowest: ssp, 2.0 s (2.0 times as long)." in " ".join(out.split())


def rows(**told: tuple[float, float | None]) -> list[dict[str, Any]]:
    return [
        {"strategy": name, "virtual_s": seconds, "final": {} if accuracy is None else {"accuracy": accuracy}}
        for name, (seconds, accuracy) in told.items()
    ]


def test_words_say_who_was_fastest_who_learned_most_and_who_is_the_best_bargain() -> None:
    assert in_words(rows(slow=(4.0, 0.90), good=(2.0, 0.89), bad=(1.0, 0.5)), "virtual_s") == (
        "All trained on the same samples. Fastest: bad, 1.0 s; slowest: slow, 4.0 s (4.0 times as long). "
        "Most accurate: slow, 0.9000. Within 2 points of it and quickest: good, 0.8900 in 2.0 s."
    )


def test_words_leave_out_what_was_not_reported_and_what_is_no_news() -> None:
    common = "All trained on the same samples. Fastest: a, 1.0 s; slowest: b, 2.0 s (2.0 times as long)."
    assert in_words(rows(a=(1.0, None), b=(2.0, None)), "virtual_s") == common
    assert in_words(rows(a=(1.0, 0.9), b=(2.0, 0.5)), "virtual_s") == f"{common} Most accurate: a, 0.9000."


def test_a_run_that_diverged_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    diverged = outcome("ssp", accuracy=float("nan"))
    diverged.consensus = float("nan")
    out = shown([diverged, outcome("gossip", accuracy=0.5)], capsys, monkeypatch, 120)
    assert cells(out, "ssp")[0][4:] == ["diverged", "3.1 MB", "75 %", "3.0 / 3", "diverged"]
    assert "Most accurate: gossip, 0.5000." in " ".join(out.split())


def test_times_that_hardly_differ_are_not_told_apart() -> None:
    rows = [outcome("ssp", 2.0).to_json(), outcome("gossip", 2.05).to_json()]
    assert in_words(rows, "virtual_s") == "All trained on the same samples. All took about as long (2.0 s)."


def test_kills_are_shown_with_the_goodput_and_how_soon_workers_were_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    struck = outcome("ssp", dry=True)
    struck.losses, struck.samples_per_s_undisturbed = [SimulatedLoss(1, 4, 0.5, 0.9), SimulatedLoss(0, 8, 1.5)], 12.5
    out = shown([struck, outcome("gossip", dry=True)], capsys, monkeypatch, 90)
    assert cells(out, "ssp")[0][3] == "80.0%"
    assert cells(out, "gossip")[0][3] == "-"
    assert "ssp: Killed: 2 workers, of which 1 were replaced, after 400.0 ms at most.\n" in out
    assert "All trained on the same samples." not in out
    struck.losses = struck.losses[1:]
    assert "Killed: 1 workers, of which 0 were replaced.\n" in shown([struck], capsys, monkeypatch, 90)


def test_a_run_that_is_shorter_than_the_first_kill_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spared = outcome("ssp", 0.515, dry=True)
    spared.samples_per_s_undisturbed = 10.0
    out = shown([spared, outcome("gossip", dry=True)], capsys, monkeypatch, 90)
    assert out.count("killed") == 1, "nobody asked for kills in the other"
    assert "ssp: No worker was killed: the run took 515.0 ms of virtual time.\n" in out
