"""What users write to let faults happen."""

import pytest

from weft.config.chaos import KILL, STOP_PROCESS, ChaosPlan, read_chaos
from weft.core.errors import ConfigError


def test_a_plan_says_what_how_often_and_by_which_seed() -> None:
    assert read_chaos("kill every 15s seed 7", "run.chaos") == ChaosPlan(KILL, 15.0, 7)
    assert read_chaos(" stop  every 500ms ", "run.chaos") == ChaosPlan(STOP_PROCESS, 0.5, 0)


@pytest.mark.parametrize(
    "text", ["", "kill", "burn every 3s", "kill every 0s", "kill every 3s seed x", "kill every 3s now"]
)
def test_other_words_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="kill every 15s seed 7"):
        read_chaos(text, "run.chaos")


def test_a_unit_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"run\.chaos is '15', but wants a number with one of the units"):
        read_chaos("kill every 15", "run.chaos")
