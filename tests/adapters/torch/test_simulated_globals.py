"""What is global in torch, kept apart for each simulated worker."""

import sys
from collections.abc import Iterator

import pytest
import torch

from weft.adapters.torch.simulated_globals import TorchSwapper


@pytest.fixture(autouse=True)
def _torch_is_put_back() -> Iterator[None]:
    swapper = TorchSwapper()
    before = swapper.save()
    yield
    swapper.restore(before)


def test_a_worker_gets_back_what_it_left() -> None:
    swapper = TorchSwapper()
    torch.manual_seed(5)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)
    mine = swapper.save()
    drawn = torch.rand(3)
    swapper.restore(swapper.fresh(1))
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    swapper.restore(mine)
    assert torch.equal(torch.rand(3), drawn)
    assert not torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float64
    assert torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") is torch.float16


def test_a_fresh_worker_is_seeded_as_the_run_says() -> None:
    swapper = TorchSwapper()
    swapper.restore(swapper.fresh(2**63 - 1))
    drawn = torch.rand(3)
    torch.manual_seed(2**63 - 1)
    assert torch.equal(torch.rand(3), drawn)


def test_nothing_is_kept_while_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    swapper = TorchSwapper()
    state = torch.get_rng_state()
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "torch")
        assert swapper.save() is None
        swapper.restore(swapper.fresh(1))
        swapper.restore(None)
    assert torch.equal(torch.get_rng_state(), state)
