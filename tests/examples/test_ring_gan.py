"""The GAN example: alone, and on real workers, by the share of points on the ring.

That two optimizers equal the plain loop under every kind of strategy is tested by their parameters, to 1e-9.
"""

from pathlib import Path

import torch._dynamo  # noqa: F401 - here, once: every forked worker would take seconds for it
from safetensors.torch import load_file
from support.processes.real import Heard, real
from support.scripts.examples import EXAMPLES, run_example

EPOCHS = 7
TOLERANCE = 0.1
"""By what the scores of so few epochs swing; after 12 it is less than 0.02."""


def test_workers_reach_what_one_alone_reaches(tmp_path: Path) -> None:
    alone = float(run_example("ring_gan.py", "--epochs", EPOCHS)["on_ring"]())
    saved, heard = tmp_path / "generator.safetensors", Heard()
    real(
        EXAMPLES / "ring_gan.py", 2, "ssp", "--epochs", EPOCHS, "--batch-size", 32, "--save", saved, heard=heard
    )  # fmt: skip
    scores = [numbers["on_ring"] for _, numbers in heard.reports]
    assert scores[0] < 0.5
    assert max(scores) > alone - TOLERANCE
    assert sorted(load_file(saved)) == sorted(f"{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias"))
