"""What codecs are tried on: settings that learn within a few steps, a small problem, and a script."""

from typing import Any

import numpy as np

from weft.config.registry import CODECS

SHAPE = (8, 6)
WITHIN_A_FEW_STEPS = {
    "topk": "topk(0.25)",
    "randomk": "randomk(0.5)",
    "threshold": "threshold(0.05)",
    "dgc": "dgc(0.25, warmup_steps=0)",
}
"""Codecs that by default say less than a small test can wait for."""

CODINGS = {name: WITHIN_A_FEW_STEPS.get(name, name) for name in CODECS}
NO_FRAMEWORK = [name for name in CODECS if not CODECS[name].captures]


class Fit:
    """|XW - Y|² / 2n with unequal batches: every worker draws its own rows in every step."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.x = rng.normal(size=(48, SHAPE[0]))
        self.start = rng.normal(size=SHAPE) * 3
        self.y = self.x @ rng.normal(size=SHAPE)

    def gradient(self, worker: int, step: int, w: Any) -> Any:
        rows = np.random.default_rng((worker, step)).integers(0, 48, 4 * (worker + 1))
        return self.x[rows].T @ (self.x[rows] @ w - self.y[rows]) / len(rows)

    def loss(self, w: Any) -> float:
        return float(np.mean((self.x @ w.reshape(SHAPE) - self.y) ** 2) / 2)


FIT = Fit()


SCRIPT = """
import numpy as np
import weft

rng = np.random.default_rng(0)
x, wanted = rng.normal(size=(40, 8)), rng.normal(size=(8, 6))
w, b = rng.normal(size=(8, 6)), np.zeros(6)
worker = weft.join(arrays={"w": w, "b": b}, optimizer=weft.SGD(lr=0.1))
for epoch in worker.epochs(2):
    for rows in worker.share(40, batch_size=2):
        error = x[rows] @ (w - wanted) + b
        worker.step({"w": x[rows].T @ error / len(rows), "b": error.mean(axis=0)}, loss=float(np.mean(error**2)))
    worker.report(loss=lambda: float(np.mean((x @ (w - wanted) + b) ** 2)))
"""
