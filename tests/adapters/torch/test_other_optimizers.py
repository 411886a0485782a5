"""An optimizer that did not join may not step parameters that did."""

from pathlib import Path

import pytest
from support.scripts.training_scripts import TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write

from weft.core.errors import ConfigError

OTHER = "other = torch.optim.SGD({}, lr=0.1)\n"
STEP = TORCH_TRAIN + "        other.step()\n"


def test_its_step_on_parameters_that_joined_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, TORCH, TORCH_JOIN, OTHER.format("model.parameters()"), STEP)
    with pytest.raises(ConfigError) as refused:
        simulated(path, 2, "allreduce")
    assert str(refused.value) == (
        "an optimizer that did not join (SGD) makes a step on parameters that did, which workers would not share.\n"
        "  Give weft.join all optimizers: weft.join(model, [opt_a, opt_b])."
    )


def test_its_step_on_parameters_of_its_own_is_no_objection(tmp_path: Path) -> None:
    path = write(tmp_path, TORCH, TORCH_JOIN, OTHER.format("[nn.Parameter(torch.zeros(1))]"), STEP)
    assert simulated(path, 2, "allreduce").facts.steps[0] > 0
