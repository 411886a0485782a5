"""The GAN example: alone, and on real workers under strategies of every kind, by the share of points on the ring."""

from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401 - here, once: every forked worker would take seconds for it
from safetensors.torch import load_file
from support.processes.real import Heard, real
from support.scripts.examples import EXAMPLES, run_example

EPOCHS = 7
TOLERANCE = 0.1
"""By what the scores of so few epochs swing; after 12 it is less than 0.02."""


@pytest.fixture(scope="module")
def alone() -> float:
    """What the example reaches alone."""
    return float(run_example("ring_gan.py", "--epochs", EPOCHS)["on_ring"]())


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossip"])
def test_workers_reach_what_one_alone_reaches(strategy: str, alone: float, tmp_path: Path) -> None:
    saved, heard = tmp_path / "generator.safetensors", Heard()
    real(
        EXAMPLES / "ring_gan.py", 2, strategy, "--epochs", EPOCHS, "--batch-size", 32, "--save", saved, heard=heard
    )  # fmt: skip
    scores = [numbers["on_ring"] for _, numbers in heard.reports]
    assert scores[0] < 0.5
    assert max(scores) > alone - TOLERANCE
    assert sorted(load_file(saved)) == sorted(f"{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias"))
