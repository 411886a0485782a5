"""A digest of the first gradient, and what is said of workers that have the same."""

from pathlib import Path

import numpy as np
import pytest
from support.processes.launches import TRAIN
from support.processes.real import Heard, real
from support.scripts.training_scripts import ARRAYS, TORCH, TORCH_JOIN, simulated, write

from weft.adapters.first_gradient import digest_of

ALL = "all 3 workers compute on the same samples: their first gradients are equal."

DRAWS = """
rng = np.random.default_rng({seed})
for step in range(3):
    rows = rng.integers(0, 50, size=4)
    worker.step({{"w": w - rows.mean()}}, samples=4)
"""
TORCH_DRAWS = """
import numpy as np
rng = np.random.default_rng({seed})
for step in range(3):
    rows = rng.integers(0, 26, size=4)
    worker.count(4)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()
"""


def test_equal_gradients_have_equal_digests_and_zeros_have_none() -> None:
    ones, others = [np.ones(3), np.ones(2)], [np.ones(3), np.array([1.0, 1.0 + 1e-15])]
    assert digest_of(ones) == digest_of([np.ones(3), np.ones(2)])
    assert digest_of(ones) != digest_of(others)
    assert digest_of([np.zeros(3)]) is None


@pytest.mark.parametrize("strategy", ["allreduce", "ssp"])
@pytest.mark.parametrize(("seed", "is_same"), [("0", True), ("[0, worker.rank]", False)])
@pytest.mark.parametrize("pieces", [(ARRAYS, DRAWS), (TORCH, TORCH_JOIN, TORCH_DRAWS)], ids=["arrays", "torch"])
def test_a_generator_of_the_scripts_own_that_gives_all_workers_the_same_samples_is_noticed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pieces: tuple[str, ...],
    seed: str,
    is_same: bool,
    strategy: str,
) -> None:
    simulated(write(tmp_path, *pieces[:-1], pieces[-1].format(seed=seed)), 3, strategy)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(ALL)]
    assert len(told) == is_same


@pytest.mark.parametrize(
    "text",
    [
        "for rows in worker.share(12, batch_size=2):\n    worker.step({'w': np.ones(3)}, samples=2)\n",
        "for rows in worker.share([np.ones(3)] * 6):\n    worker.count(2)\n    worker.step({'w': np.ones(3)})\n",
    ],
    ids=["places", "a stream"],
)
def test_samples_that_weft_has_dealt_may_be_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    outcome = simulated(write(tmp_path, ARRAYS, text), 3)
    assert outcome.facts.steps == [2, 2, 2]
    assert capsys.readouterr().out == ""


def test_real_workers_are_told_once_too(tmp_path: Path) -> None:
    heard = Heard()
    real(write(tmp_path, TRAIN, DRAWS.format(seed="0")), 3, heard=heard)
    assert [text.startswith(ALL) for text in heard.told] == [True]
