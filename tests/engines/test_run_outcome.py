"""The outcome of a run as a record to read."""

from pathlib import Path
from typing import Any

from weft.engines.run_outcome import RunOutcome

FIGURES: dict[str, Any] = {
    "strategy": "ssp", "workers": 2, "steps": 1600, "samples": 3200.0, "wall_s": 1.5, "virtual_s": None,
    "final": {"accuracy": 0.97, "loss": None}, "reports": [{"epoch": 0, "accuracy": 0.97}],
}  # fmt: skip


def test_it_says_what_was_reached_and_what_was_saved() -> None:
    outcome = RunOutcome.of(FIGURES, saved=[Path("model.safetensors")])
    assert (outcome.numbers, outcome.reports) == (FIGURES["final"], FIGURES["reports"])
    assert (outcome.steps, outcome.samples, outcome.seconds, outcome.was_stopped) == (1600, 3200.0, 1.5, False)
    assert repr(outcome) == (
        "<ssp on 2 workers: 1,600 steps, 3,200 samples in 1.5 s, ended well: accuracy 0.97, loss not finite, "
        "saved model.safetensors>"
    )


def test_the_time_of_a_simulation_is_virtual() -> None:
    outcome = RunOutcome.of({**FIGURES, "workers": 1, "virtual_s": 20.0, "final": {}}, was_stopped=True)
    assert repr(outcome) == "<ssp on 1 worker: 1,600 steps, 3,200 samples in 20.0 s, stopped early>"
