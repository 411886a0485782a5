"""The maths of L-BFGS, against torch's own and against formulas by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from weft.core.rules import LBFGS
from weft.store.lbfgs import Curvature

Array = NDArray[Any]


class Logistic:
    """Logistic regression on all of its samples, with a little weight decay so that there is one minimum."""

    def __init__(self, dtype: Any) -> None:
        rng = np.random.default_rng(3)
        self.x = rng.normal(size=(60, 9)).astype(dtype) * np.linspace(0.2, 3.0, 9, dtype=dtype)
        self.y = (rng.random(60) < 0.5).astype(dtype)

    def gradient(self, w: Array) -> Array:
        p = 1 / (1 + np.exp(-self.x @ w))
        return np.asarray(self.x.T @ (p - self.y) / len(self.y) + 0.01 * w)

    def by_torch(self, num_steps: int, lr: float, history: int) -> Array:
        x, y = torch.from_numpy(self.x), torch.from_numpy(self.y)
        w = torch.zeros(9, dtype=x.dtype, requires_grad=True)
        optimizer = torch.optim.LBFGS([w], lr=lr, max_iter=1, history_size=history)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ w, y) + 0.005 * (w @ w)
            loss.backward()
            return loss

        for _ in range(num_steps):
            optimizer.step(closure)
        return w.detach().numpy()


def descended(gradient: Callable[[Array], Array], arrays: list[Array], num_steps: int, rule: LBFGS) -> list[Array]:
    """The arrays after so many steps, as one vector cut into them."""
    curvature = Curvature()
    cuts = np.cumsum([len(array) for array in arrays])[:-1]
    for _ in range(num_steps):
        pieces = np.split(gradient(np.concatenate(arrays)), cuts)
        curvature.update(rule, arrays, [piece.copy() for piece in pieces], 1.0)
    return arrays


@pytest.mark.parametrize(("dtype", "error_max"), [(np.float64, 1e-12), (np.float32, 1e-5)])  # sums in other orders
@pytest.mark.parametrize(("lr", "history"), [(1.0, 10), (0.5, 3), (1.0, 1)])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 12])
def test_it_makes_the_steps_of_torch(dtype: Any, error_max: float, lr: float, history: int, num_steps: int) -> None:
    problem = Logistic(dtype)
    arrays = descended(
        problem.gradient, [np.zeros(4, dtype), np.zeros(5, dtype)], num_steps, LBFGS(lr=lr, history=history)
    )
    expected = problem.by_torch(num_steps, lr, history)
    assert np.max(np.abs(np.concatenate(arrays) - expected)) < error_max * max(1.0, np.max(np.abs(expected)))


def test_the_first_step_follows_the_gradient_and_is_shortened_by_the_sum_of_its_sizes() -> None:
    w = np.zeros(2)
    Curvature().update(LBFGS(lr=0.5), [w], [np.array([3.0, -1.0])], 1.0)
    assert w == pytest.approx([-0.5 * 3 / 4, 0.5 * 1 / 4])
    gentle = np.zeros(2)
    Curvature().update(LBFGS(lr=0.5), [gentle], [np.array([0.25, -0.25])], 1.0)
    assert gentle == pytest.approx([-0.125, 0.125])


def test_scale_multiplies_the_learning_rate() -> None:
    w, half = np.zeros(1), np.zeros(1)
    Curvature().update(LBFGS(lr=0.5), [w], [np.array([0.5])], 0.5)
    Curvature().update(LBFGS(lr=0.25), [half], [np.array([0.5])], 1.0)
    assert w == half


def test_a_parabola_in_one_dimension_is_solved_by_its_second_step() -> None:
    w = np.array([5.0])
    descended(lambda w: 3.0 * (w - 2.0), [w], 2, LBFGS())
    assert w == pytest.approx([2.0], rel=1e-14)


def test_arrays_that_are_updated_together_are_one_vector_however_it_is_cut() -> None:
    def gradient(w: Array) -> Array:
        a, b = w
        return np.array([2 * (a + b) + a, 2 * (a + b)])

    whole = descended(gradient, [np.array([1.0, 2.0])], 6, LBFGS())
    cut = descended(gradient, [np.array([1.0]), np.array([2.0])], 6, LBFGS())
    assert np.concatenate(cut) == pytest.approx(whole[0], rel=1e-9)
    apart = [np.array([1.0]), np.array([2.0])]
    curvatures = [Curvature(), Curvature()]
    for _ in range(6):
        for array, curvature, piece in zip(apart, curvatures, gradient(np.concatenate(apart)), strict=True):
            curvature.update(LBFGS(), [array], [np.array([piece])], 1.0)
    assert np.concatenate(apart) != pytest.approx(whole[0], rel=1e-3)


def test_a_step_along_which_the_gradient_does_not_grow_teaches_nothing() -> None:
    w, curvature = np.array([0.0]), Curvature()
    for g in (0.5, 0.5, 0.25):
        curvature.update(LBFGS(), [w], [np.array([g])], 1.0)
    assert w == pytest.approx([-0.5 - 0.5 - 0.25 * (0.5 / 0.25)])


def test_nothing_happens_where_nothing_is_left_to_do() -> None:
    w, curvature = np.array([1.0]), Curvature()
    curvature.update(LBFGS(), [w], [np.array([1e-7])], 1.0)
    assert w == [1.0]
    curvature.update(LBFGS(), [w], [np.array([2e-6])], 1.0)
    assert w == [1.0], "it would lead down too gently"
    curvature.update(LBFGS(), [w], [np.array([0.5])], 1.0)
    assert w == [0.5]


def test_half_precision_is_calculated_in_single() -> None:
    w = np.zeros(3, np.float16)
    descended(lambda w: (w.astype(np.float32) - [1.0, 2.0, 3.0]).astype(np.float16), [w], 8, LBFGS())
    assert w.dtype == np.float16
    assert w == pytest.approx([1.0, 2.0, 3.0], rel=1e-3)
