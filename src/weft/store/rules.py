"""The maths of the update rules on flat numpy arrays, element by element and in place."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.rules import SGD, AdaGrad, Adam, Momentum, Rule

Array = NDArray[Any]
State = dict[str, Array]
COUNT = "count"
"""The entry of a state that counts updates."""


def _state(state: State, name: str, like: Array) -> Array:
    if name not in state:
        state[name] = np.zeros_like(like)
    return state[name]


def _sgd(rule: SGD, w: Array, g: Array, lr: float, state: State) -> None:
    w -= lr * g


def _momentum(rule: Momentum, w: Array, g: Array, lr: float, state: State) -> None:
    v = _state(state, "velocity", w)
    v *= rule.momentum
    v += g
    w -= lr * (g + rule.momentum * v if rule.nesterov else v)


def _adagrad(rule: AdaGrad, w: Array, g: Array, lr: float, state: State) -> None:
    s = _state(state, "squares", w)
    s += g * g
    w -= lr * g / (np.sqrt(s) + rule.epsilon)


def _adam(rule: Adam, w: Array, g: Array, lr: float, state: State) -> None:
    m, v = _state(state, "mean", w), _state(state, "squares", w)
    count = state.setdefault(COUNT, np.zeros(1))
    count += 1
    m += (1 - rule.beta1) * (g - m)
    v += (1 - rule.beta2) * (g * g - v)
    unbiased = np.sqrt(v / (1 - rule.beta2 ** count[0])) + rule.epsilon
    w -= lr * (m / (1 - rule.beta1 ** count[0])) / unbiased


_MATHS: dict[type[Rule], Callable[[Any, Array, Array, float, State], None]] = {
    SGD: _sgd,
    Momentum: _momentum,
    AdaGrad: _adagrad,
    Adam: _adam,
}


KEPT: Mapping[type[Rule], tuple[str, ...]] = {Momentum: ("velocity",), AdaGrad: ("squares",), Adam: ("mean", "squares")}


def kept_by(rule: Rule) -> tuple[str, ...]:
    """The names of what a rule keeps of each element."""
    return KEPT.get(type(rule), ())


def update(rule: Rule, w: Array, g: Array, scale: float, state: State) -> None:
    """One step of `rule` on `w` in place; `scale` multiplies its learning rate, `state` is kept by the caller."""
    _MATHS[type(rule)](rule, w, g, rule.lr * scale, state)
