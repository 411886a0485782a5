"""Recipes of update rules: what an optimizer is called and its hyper-parameters. The maths is in store/."""

from dataclasses import dataclass

from weft.core.errors import ConfigError


@dataclass
class Rule:
    """Base of the recipes; `lr` may be changed while training, as a scheduler does."""

    lr: float

    def __post_init__(self) -> None:
        if not self.lr >= 0:
            raise ConfigError(f"lr is {self.lr!r}, but a learning rate is at least 0.\n  Write e.g. lr=0.1.")


@dataclass
class SGD(Rule):
    """w -= lr * g."""


@dataclass
class Momentum(Rule):
    """v = momentum * v + g; w -= lr * v, or with nesterov: w -= lr * (g + momentum * v)."""

    momentum: float = 0.9
    nesterov: bool = False


@dataclass
class AdaGrad(Rule):
    """s += g²; w -= lr * g / (sqrt(s) + epsilon)."""

    epsilon: float = 1e-10


@dataclass
class Adam(Rule):
    """Adam with bias correction (Kingma & Ba 2015)."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass
class LBFGS(Rule):
    """L-BFGS with a fixed step (Nocedal 1980): the direction from the last `history` changes of the gradient.

    Looks at all the buckets that are updated together as one vector; it wants the gradient of the whole data set.
    """

    lr: float = 1.0
    history: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history < 1:
            raise ConfigError(
                f"history is {self.history}, but L-BFGS remembers at least 1 step.\n  Write e.g. history=10."
            )
