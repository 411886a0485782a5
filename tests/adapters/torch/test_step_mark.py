"""The mark of a step: alike on all workers, or refused."""

import numpy as np
import pytest
import torch

from weft.adapters.torch.step_mark import AGAIN, NEW, StepMark
from weft.core.errors import ConfigError


def mark_of(gradient: np.ndarray, *, is_checked: bool = True) -> StepMark:
    mark = StepMark(torch.float32)
    mark.given, mark.place, mark.is_checked = gradient, len(gradient) - 1, is_checked
    return mark


def is_refused(mark: StepMark, gradients: dict[int, np.ndarray]) -> bool:
    try:
        mark.check(gradients)
    except ConfigError:
        return True
    return False


def test_it_says_whether_new_samples_were_counted() -> None:
    gradient = np.zeros(3, np.float32)
    mark = mark_of(gradient)
    mark.give(has_new_samples=True)
    assert gradient.tolist() == [0.0, 0.0, NEW]
    mark.give(has_new_samples=False)
    assert gradient.tolist() == [0.0, 0.0, AGAIN]


@pytest.mark.parametrize("value", [0.0, NEW, AGAIN, NEW + 1e-6, AGAIN - 1e-6])
def test_equal_marks_pass_whatever_their_mean_was_rounded_to(value: float) -> None:
    assert not is_refused(mark_of(np.zeros(1, np.float32)), {0: np.array([value], np.float32)})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_steps_of_different_optimizers_are_refused_when_the_next_gradient_comes(kind: type) -> None:
    gradient = np.zeros(1, kind)
    mark = mark_of(gradient)
    for number in (1, 2):
        mark.give(has_new_samples=True, after=number)
        assert not is_refused(mark, {0: gradient})
    with pytest.raises(ConfigError) as refused:
        mark.check({0: np.array([0.5 * (NEW + 4) + 0.5 * (NEW + 8)], kind)})
    assert str(refused.value) == (
        "workers have made their last step with different optimizers, so their parameters differ.\n"
        "  Let every worker step the same optimizers in the same order: decide by what all see alike."
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_mean_of_both_is_refused_and_worker_count_is_named(kind: type) -> None:
    with pytest.raises(ConfigError) as refused:
        mark_of(np.zeros(1, kind)).check({0: np.array([1.25], kind)})
    assert str(refused.value) == (
        "some workers counted new samples for this step and others did not, so their gradients have no common "
        "weight.\n  Let every worker take a batch from worker.share(...) before its backward, or say "
        "worker.count(...) on all of them (0 where there are no samples)."
    )


def test_marks_of_different_steps_are_no_objection_where_those_are_added_up() -> None:
    assert not is_refused(mark_of(np.zeros(1), is_checked=False), {0: np.array([1.5])})
    assert not is_refused(mark_of(np.zeros(1)), {1: np.array([1.5])})
    assert is_refused(mark_of(np.zeros(1)), {0: np.array([1.5])})
