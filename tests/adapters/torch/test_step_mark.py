"""The mark of a step: alike on all workers, or refused."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.adapters.torch.step_mark import AGAIN, NEW, OPTIMIZER, StepMark
from weft.core.actions import MEAN
from weft.core.errors import ConfigError
from weft.store.reduction import reduce_arrays


def mark_of(gradient: np.ndarray, num_workers: int | None = 2) -> StepMark:
    mark = StepMark(torch.float32)
    mark.given, mark.element, mark.num_workers = gradient, len(gradient) - 1, num_workers
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


@pytest.mark.parametrize("value", [0.0, NEW, AGAIN, NEW + 1e-7, AGAIN - 2e-7])
def test_equal_marks_pass_whatever_their_mean_was_rounded_to(value: float) -> None:
    assert not is_refused(mark_of(np.zeros(1, np.float32)), {0: np.array([value], np.float32)})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_steps_of_different_optimizers_are_refused_when_the_next_gradient_comes(kind: type) -> None:
    gradient: Any = np.zeros(1, kind)
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
    assert not is_refused(mark_of(np.zeros(1), None), {0: np.array([1.5])})
    assert not is_refused(mark_of(np.zeros(1)), {1: np.array([1.5])})
    assert is_refused(mark_of(np.zeros(1)), {0: np.array([1.5])})


NUMBERS = [np.float16, np.float32, np.float64]
SAMPLES = st.one_of(st.integers(1, 8), st.integers(1, 100_000), st.floats(0.01, 1e6))
MARKS = st.integers(0, 8).flatmap(lambda number: st.sampled_from([OPTIMIZER * number + each for each in (NEW, AGAIN)]))


def gives(kind: type, value: int, num_workers: int | None) -> tuple[StepMark, np.ndarray]:
    """A worker's mark, and the gradient that has it."""
    gradient: Any = np.zeros(1, kind)
    mark = mark_of(gradient, num_workers)
    after, own = divmod(value, OPTIMIZER)
    mark.give(has_new_samples=own == NEW, after=after)
    return mark, gradient


def served(gradients: list[np.ndarray], weights: list[float]) -> np.ndarray:
    """The mean as a server makes it: one push after another is added up, and the sum divided."""
    total = gradients[0] * gradients[0].dtype.type(weights[0])
    for gradient, weight in zip(gradients[1:], weights[1:], strict=True):
        total += gradient * total.dtype.type(weight)
    return total * total.dtype.type(1.0 / sum(weights))


@given(st.sampled_from(NUMBERS), MARKS, st.lists(SAMPLES, min_size=2, max_size=64))
def test_equal_marks_are_refused_by_nobody_however_uneven_the_samples_are(
    kind: type, value: int, weights: list[float]
) -> None:
    given_by = [gives(kind, value, len(weights)) for _ in weights]
    gradients = [gradient for _, gradient in given_by]
    mean = reduce_arrays(gradients, weights, MEAN)
    assert not any(is_refused(mark, {0: mean}) for mark, _ in given_by)
    if kind is not np.float16:  # whose sums of so many samples are no numbers
        assert not is_refused(mark_of(np.zeros(1, kind), len(weights)), {0: served(gradients, weights)})


@given(st.sampled_from(NUMBERS), st.lists(st.tuples(MARKS, SAMPLES), min_size=2, max_size=64))
def test_marks_that_differ_are_refused_by_some_worker_however_uneven_the_samples_are(
    kind: type, workers: list[tuple[int, float]]
) -> None:
    given_by = [gives(kind, value, len(workers)) for value, _ in workers]
    mean = reduce_arrays([gradient for _, gradient in given_by], [weight for _, weight in workers], MEAN)
    differ = len({value for value, _ in workers}) > 1
    assert any(is_refused(mark, {0: mean}) for mark, _ in given_by) == differ


@given(st.sampled_from([np.float32, np.float64]), st.permutations([(NEW, 1), (AGAIN, 100_000)]), st.booleans())
def test_a_server_finds_one_sample_among_a_hundred_thousand(
    kind: type, workers: list[tuple[int, int]], is_reversed: bool
) -> None:
    values = [AGAIN + NEW - value if is_reversed else value for value, _ in workers]
    mean = served([np.array([value], kind) for value in values], [float(samples) for _, samples in workers])
    assert is_refused(mark_of(np.zeros(1, kind)), {0: mean})
