"""What the training benchmarks train."""

import pytest
import torch

from weft.bench.contenders.workloads import WORKLOADS, workload

MILLIONS = {"cnn": 1.2, "mlp": 20.0, "mlp-clip": 20.0, "transformer": 3.2}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_the_size_that_it_says_and_its_steps_change_the_model(name: str) -> None:
    work = workload(name)
    parameters = list(work.model.parameters())
    assert sum(p.numel() for p in parameters) / 1e6 == pytest.approx(MILLIONS[name], rel=0.02)
    before = [p.detach().clone() for p in parameters]
    work.steps()()
    assert all(not torch.equal(p, old) for p, old in zip(parameters, before))


def test_every_process_starts_from_the_same_parameters() -> None:
    one, other = workload("cnn"), workload("cnn")
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters()))


def test_clipping_bounds_the_gradient_of_a_step() -> None:
    work = workload("mlp-clip")
    work.norm_max = 1e-3
    work.steps()()
    norms = torch.stack([p.grad.norm() for p in work.model.parameters() if p.grad is not None])
    assert norms.norm().item() <= 1e-3 * 1.01
