"""What every run of a script needs to be told."""

from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.engines.job_checks import check_job

HERE = Path(__file__)


@pytest.mark.parametrize("steps_max", [None, 1])
@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_what_can_run_is_let_through(seed: int, steps_max: int | None) -> None:
    assert check_job(HERE, 1, seed, steps_max) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_workers": 0}, "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        ({"num_workers": -2}, "-n is -2, but a run needs at least 1 worker.\n  Use -n 1."),
        ({"steps_max": 0}, "--steps is 0, but must be at least 1.\n  Leave it out to run the script's own."),
        ({"script": Path("no.py")}, "script 'no.py' does not exist.\n  Check the path."),
        ({"script": HERE.parent}, f"script '{HERE.parent}' does not exist.\n  Check the path."),
        ({"seed": -1}, "--seed is -1, but must be from 0 to 2**63 - 1.\n  Use --seed 0."),
        ({"seed": 2**63}, f"--seed is {2**63}, but must be from 0 to 2**63 - 1.\n  Use --seed 0."),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(change: dict[str, Any], message: str) -> None:
    job = {"script": HERE, "num_workers": 1, "seed": 0, "steps_max": None, **change}
    with pytest.raises(ConfigError) as refused:
        check_job(**job)
    assert str(refused.value) == message
