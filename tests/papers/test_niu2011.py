"""Niu, Recht, Re, Wright: "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent" (NIPS 2011)."""

from pathlib import Path

import numpy as np
from support.processes.real import real
from support.simulated.weather import storm

from weft.core.rules import SGD, Momentum
from weft.strategies import Hogwild
from weft.testing.worlds import simulate_arrays

NUM_FEATURES, NUM_WORKERS = 40, 4
WANTED = np.linspace(-1.0, 1.0, NUM_FEATURES)


def sparse(worker: int, step: int, w: np.ndarray) -> np.ndarray:
    """Section 2: each gradient is of a few numbers only."""
    places = np.random.default_rng([worker, step]).choice(NUM_FEATURES, 2, replace=False)
    gradient = np.zeros_like(w)
    gradient[places] = w[places] - WANTED[places]
    return gradient


def test_it_converges_on_a_sparse_problem_whatever_the_delays() -> None:
    starts = [np.zeros(NUM_FEATURES)] * NUM_WORKERS
    options = {"num_steps": 300, "starts": starts, "rule": SGD(0.2), **storm(NUM_WORKERS, 3)}
    ran = simulate_arrays(Hogwild(), NUM_WORKERS, sparse, **options)
    assert np.abs(ran.result[0] - WANTED).max() < 1e-2
    assert all(np.array_equal(params[0], ran.result[0]) for params in ran.params)


def test_one_worker_is_sgd() -> None:
    rule, w = Momentum(0.1), np.zeros(NUM_FEATURES)
    ran = simulate_arrays(Hogwild(), 1, sparse, num_steps=50, starts=[w], rule=rule)
    alone, velocity = np.zeros(NUM_FEATURES), np.zeros(NUM_FEATURES)
    for step in range(50):
        velocity = 0.9 * velocity + sparse(0, step, alone)
        alone -= 0.1 * velocity
    assert np.array_equal(ran.result[0], alone)


SCRIPT = """
import numpy as np
import weft

wanted = np.linspace(-1.0, 1.0, 40)
w = np.zeros(40)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.2))
rng = np.random.default_rng(worker.rank)
for step in range(400):
    places = rng.choice(40, 2, replace=False)
    gradient = np.zeros(40)
    gradient[places] = w[places] - wanted[places]
    worker.step({"w": gradient}, samples=2)
worker.report(error=lambda: float(np.abs(w - wanted).max()))
"""


def test_real_workers_that_write_without_locks_converge_on_a_sparse_problem(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    outcome = real(tmp_path / "train.py", NUM_WORKERS, "hogwild").to_json()
    assert outcome["final"]["error"] < 1e-2
    assert outcome["bytes_sent"] == 0
