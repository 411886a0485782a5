"""The factors of linear layers' gradients: their product is the gradient, or they are left out."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weft.adapters.torch.factors import CALLS_MAX, FactorCapture
from weft.codecs import Factors, Form, Turn
from weft.core.errors import ConfigError


class Net:
    """A model of two linear layers, one of them used twice, and what is captured of it."""

    def __init__(self, *, frozen: bool = False) -> None:
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(12, 9), nn.Linear(9, 9)
        self.first.weight.requires_grad_(not frozen)
        self.model = nn.Sequential(self.first, nn.ReLU(), self.second, nn.ReLU(), self.second)
        self.capture = FactorCapture(self.model)
        self.weights = [self.first.weight, self.second.weight]

    def backward(self, batch: int = 3) -> None:
        self.model(torch.randn(batch, 12)).square().mean().backward()

    def take(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        gradient = [np.zeros((9, 12 if i == 0 else 9), np.float32) for i in range(2)]
        for values, weight in zip(gradient, self.weights, strict=True):
            if weight.grad is not None:
                values[:] = weight.grad.numpy()
        return self.capture.take(self.weights, gradient)


def is_close(net: Net, found: list[tuple[int, np.ndarray, np.ndarray]]) -> bool:
    """The products are the gradients, to 1e-6."""
    pairs = [(errors.T @ activations, net.weights[index].grad) for index, errors, activations in found]
    return all(np.allclose(product, grad.numpy(), atol=1e-6) for product, grad in pairs if isinstance(grad, Tensor))


def test_the_product_of_the_factors_is_the_dense_gradient_also_of_a_layer_that_is_used_twice() -> None:
    net = Net()
    net.backward()
    found = net.take()
    assert [(index, len(errors)) for index, errors, _ in found] == [(0, 3), (1, 6)]
    assert is_close(net, found)


def test_what_the_codec_makes_of_them_is_the_dense_gradient_in_fewer_bytes() -> None:
    net = Net()
    net.backward(batch=2)
    gradient = net.first.weight.grad
    assert gradient is not None
    form, said = Form(108, 4, ((0, (9, 12)),)), np.zeros(108, np.float32)
    payload = Factors().encode(gradient.numpy().ravel(), None, form, Turn(), net.take()[:1]).payload
    Factors().decode(payload, said, form)
    np.testing.assert_allclose(said, gradient.numpy().ravel(), atol=1e-6)
    assert len(payload) < 108 * 4 / 2


def test_sequences_and_what_accrues_over_several_backward_passes_are_more_rows() -> None:
    net = Net()
    net.model(torch.randn(2, 5, 12)).square().mean().backward()
    net.backward()
    found = net.take()
    assert [len(errors) for _, errors, _ in found] == [13, 26]
    assert is_close(net, found)


def _clip_norm(net: Net) -> None:
    nn.utils.clip_grad_norm_(net.model.parameters(), 1e-4)


def _clip_one_number(net: Net) -> None:
    grad = net.weights[0].grad
    assert grad is not None
    grad[4, 5] *= 0.5


def _add_decay(net: Net) -> None:
    for weight in net.weights:
        assert weight.grad is not None
        weight.grad.add_(weight.detach(), alpha=0.1)


@pytest.mark.parametrize(
    ("change", "left"), [(_clip_norm, []), (_add_decay, []), (_clip_one_number, [1])], ids=["norm", "decay", "number"]
)
def test_where_the_script_changed_the_gradient_the_factors_are_left_out(
    change: Callable[[Net], None], left: list[int]
) -> None:
    net = Net()
    net.backward()
    change(net)
    assert [index for index, _, _ in net.take()] == left


def test_a_gradient_that_was_cleared_meanwhile_is_not_said_to_be_the_sum() -> None:
    net = Net()
    net.backward()
    net.model.zero_grad()
    net.backward()
    assert net.take() == []


def test_factors_are_taken_once() -> None:
    net = Net()
    net.backward()
    assert net.take()
    assert net.take() == []
    net.backward()
    net.model.zero_grad()
    net.take()
    net.backward()
    assert is_close(net, net.take())


def test_without_gradients_or_for_frozen_weights_nothing_is_kept() -> None:
    net = Net(frozen=True)
    with torch.no_grad():
        net.model(torch.randn(3, 12))
    assert net.take() == []
    net.backward()
    assert [index for index, _, _ in net.take()] == [1]


def test_a_model_without_linear_layers_is_refused_with_what_to_use() -> None:
    with pytest.raises(ConfigError) as refused:
        FactorCapture(nn.Sequential(nn.Conv2d(1, 2, 3)))
    assert str(refused.value) == (
        "'factors' are those of linear layers, but the model has none: a convolution's gradient is no product of two "
        "small ones.\n  Use 'powersgd(2)' or 'topk(0.01)' instead."
    )


def test_what_autocast_computes_in_fewer_digits_is_left_out_and_what_nobody_asks_for_does_not_pile_up() -> None:
    net = Net()
    with torch.autocast("cpu", torch.bfloat16):
        net.backward()
    assert net.take() == []
    net.model.zero_grad()
    for _ in range(CALLS_MAX + 5):
        net.backward(batch=1)
    assert len(net.capture._factors[id(net.first.weight)][0]) <= CALLS_MAX
