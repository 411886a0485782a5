"""What the texts of `weft run`'s options mean."""

from pathlib import Path

import pytest

from weft.cli.options.run_options import numbers_of_workers, options_of, slow_workers
from weft.core.errors import ConfigError


def test_slow_workers_are_told_by_number_and_factor() -> None:
    assert slow_workers(["0:4", "2:1.5"]) == {0: 4.0, 2: 1.5}
    with pytest.raises(ConfigError, match=r"^--slow got '0-4', but wants WORKER:FACTOR\.\n  Write e\.g\. --slow 0:4\."):
        slow_workers(["0-4"])


def test_flags_that_are_options_of_set_are_said_as_such() -> None:
    assert options_of(None, None, None, None, None) == []
    assert options_of("shrink", "stop", "kill every 15s", Path("runs/a"), "500steps") == [
        "run.on_loss=shrink",
        "run.on_nan=stop",
        "run.chaos=kill every 15s",
        "checkpoint.folder=runs/a",
        "checkpoint.every=500steps",
    ]


def test_the_fewest_and_the_most_workers_are_read() -> None:
    assert numbers_of_workers(None) == (None, None)
    assert numbers_of_workers("4") == (None, 4)
    assert numbers_of_workers("2..4") == (2, 4)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("4..2", "-n is '4..2', but MIN..MAX wants 1 <= MIN <= MAX.\n  Write e.g. -n 2..4."),
        ("0..2", "-n is '0..2', but MIN..MAX wants 1 <= MIN <= MAX.\n  Write e.g. -n 2..4."),
        ("many", "-n got 'many', but wants a number, or MIN..MAX.\n  Write e.g. -n 4 or -n 2..4."),
        ("2..", "-n got '2..', but wants a number, or MIN..MAX.\n  Write e.g. -n 4 or -n 2..4."),
    ],
)
def test_numbers_of_workers_that_make_no_sense_are_refused(text: str, because: str) -> None:
    with pytest.raises(ConfigError) as refused:
        numbers_of_workers(text)
    assert str(refused.value) == because
