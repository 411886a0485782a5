"""What three papers on outer optimizers are tested with: blocks of local SGD by hand, and runs beside local_sgd."""

from collections.abc import Callable
from typing import Any

import numpy as np

from support.simulated.problems import SIZES, Array, LeastSquares
from weft.core.rules import SGD, Rule
from weft.core.strategy import Strategy
from weft.testing.worlds import Ran, simulate_arrays

LR = 0.05
PERIOD, BLOCKS = 4, 5


def run(
    strategy: Strategy,
    num_workers: int,
    *,
    num_steps: int = PERIOD * BLOCKS,
    rule: Rule | None = None,
    **weather: Any,
) -> Ran:
    """Least squares with unequal batches."""
    problem = LeastSquares(SIZES[:num_workers])
    return simulate_arrays(
        strategy,
        num_workers,
        problem.gradient,
        num_steps=num_steps,
        samples=problem.sizes,
        starts=problem.starts(),
        rule=rule or SGD(LR),
        **weather,
    )


def by_hand(num_workers: int, outer: Callable[[Array, Array], Array]) -> Array:
    """Blocks of local SGD; `outer(start, mean)` says where the next block sets out."""
    problem = LeastSquares(SIZES[:num_workers])
    start = problem.start
    for block in range(BLOCKS):
        replicas = [start.copy() for _ in range(num_workers)]
        for step in range(block * PERIOD, (block + 1) * PERIOD):
            for worker, w in enumerate(replicas):
                w -= LR * problem.gradient(worker, step, w)
        start = outer(start, np.average(replicas, axis=0, weights=problem.sizes))
    return start
