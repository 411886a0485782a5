"""What the texts of `weft run`'s options mean."""

import pytest

from weft.cli.options.run_options import share_and_factor, slow_workers
from weft.core.errors import ConfigError


def test_slow_workers_are_told_by_number_and_factor() -> None:
    assert slow_workers(["0:4", "2:1.5"]) == {0: 4.0, 2: 1.5}
    with pytest.raises(ConfigError, match=r"^--slow got '0-4', but wants WORKER:FACTOR\.\n  Write e\.g\. --slow 0:4\."):
        slow_workers(["0-4"])


def test_hiccups_are_a_share_and_a_factor_and_there_are_none_unless_asked_for() -> None:
    assert share_and_factor("0.1:8") == (0.1, 8.0)
    assert share_and_factor(None) == (0.0, 1.0)
    with pytest.raises(ConfigError, match=r"^--hiccups got '8', but wants SHARE:FACTOR\."):
        share_and_factor("8")
