"""Loss against virtual time, as a picture."""

import sys
from pathlib import Path

import pytest

from weft.cli.show.plot import FORMATS, check_plot, plot_curves
from weft.core.errors import ConfigError
from weft.engines.simulated.outcome import Outcome
from weft.sim.facts import Facts


def outcome(strategy: str, *losses: float, **reported: float) -> Outcome:
    facts = Facts(1)
    for step, loss in enumerate(losses):
        facts.step(0, step + 1.0, 4.0, loss)
    facts.finished_s = [float(len(losses))]
    if reported:
        facts.report(0, 1.0, reported)
    return Outcome(strategy, 1, 0, "abc", facts)


@pytest.mark.parametrize(
    "outcomes",
    [
        [outcome("allreduce", 3.0, 2.0, 1.0)],
        [outcome("allreduce", 3.0, 2.0, accuracy=0.5), outcome("ssp", 3.0, float("nan"), accuracy=0.4)],
        [outcome(f"gossip {i}", 2.0, 1.0, loss=1.0, accuracy=0.5) for i in range(12)],
        [outcome("gossip")],
    ],
    ids=["one", "two with accuracy", "twelve", "no loss"],
)
def test_a_picture_is_drawn_whatever_was_reported(tmp_path: Path, outcomes: list[Outcome]) -> None:
    path = tmp_path / "loss.png"
    plot_curves(outcomes, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("suffix", FORMATS)
def test_these_are_pictures(suffix: str) -> None:
    assert check_plot(Path("a" + suffix), dry=False) is None


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        check_plot(Path("a.txt"), dry=False)
    assert str(refused.value) == "--plot 'a.txt' is not a picture.\n  End its name in .png, .svg, .pdf."


def test_a_run_without_losses_has_nothing_to_draw() -> None:
    with pytest.raises(ConfigError) as refused:
        check_plot(Path("a.png"), dry=True)
    assert str(refused.value) == "--plot draws the loss, but --dry computes none.\n  Leave out one of them."


def test_a_missing_matplotlib_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError) as refused:
        check_plot(Path("a.png"), dry=False)
    assert str(refused.value) == (
        "--plot needs matplotlib, which is not installed.\n  Install it: pip install 'weft[plot]'"
    )
