"""The pace of learning: warm-up from one worker's rate to that of all."""

import pytest

from weft.core.errors import ConfigError
from weft.core.pace import LearningRatePace, pace_of


def test_without_a_warm_up_it_is_the_same_from_the_first_step_on() -> None:
    assert [pace_of(4, True, 0).factor(step) for step in (0, 1, 9)] == [4.0] * 3
    assert [pace_of(4, False, 0).factor(step) for step in (0, 1, 9)] == [1.0] * 3


def test_a_warm_up_begins_with_one_workers_rate_and_rises_in_a_line() -> None:
    pace = pace_of(4, True, 3)
    assert [pace.factor(step) for step in range(5)] == pytest.approx([1.0, 2.0, 3.0, 4.0, 4.0])
    assert [LearningRatePace(2, 1.0, 2).factor(step) for step in range(3)] == pytest.approx([0.5, 0.75, 1.0])


def test_a_warm_up_of_less_than_no_steps_is_refused() -> None:
    with pytest.raises(ConfigError, match="--warmup is -1, but must be 0 or more steps"):
        pace_of(2, False, -1)
