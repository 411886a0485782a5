"""What the texts of `weft run`'s options mean."""

import pytest

from weft.cli.options.run_options import slow_workers
from weft.core.errors import ConfigError


def test_slow_workers_are_told_by_number_and_factor() -> None:
    assert slow_workers(["0:4", "2:1.5"]) == {0: 4.0, 2: 1.5}
    with pytest.raises(ConfigError, match=r"^--slow got '0-4', but wants WORKER:FACTOR\.\n  Write e\.g\. --slow 0:4\."):
        slow_workers(["0-4"])
