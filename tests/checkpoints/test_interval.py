"""How often checkpoints are written."""

import pytest

from weft.checkpoints.interval import CheckpointInterval, read_interval
from weft.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "interval", "words"),
    [
        ("500steps", CheckpointInterval(steps=500), "every 500 steps"),
        ("1step", CheckpointInterval(steps=1), "every step"),
        ("2 epochs", CheckpointInterval(epochs=2), "every 2 epochs"),
        ("1epoch", CheckpointInterval(epochs=1), "every epoch"),
        ("5m", CheckpointInterval(seconds=300.0), "every 300 s"),
        ("0.5h", CheckpointInterval(seconds=1800.0), "every 1800 s"),
    ],
)
def test_intervals_are_read(text: str, interval: CheckpointInterval, words: str) -> None:
    assert read_interval(text, "--set checkpoint.every") == interval
    assert str(interval) == words


@pytest.mark.parametrize("text", ["", "5", "0steps", "1.5steps", "-1s", "0s", "5 days", "9" * 99 + "s"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="but wants a number of steps, epochs, s, m or h") as caught:
        read_interval(text, "--set checkpoint.every")
    assert str(caught.value).endswith("\n  Write e.g. 500steps, 1epoch or 5m.")
