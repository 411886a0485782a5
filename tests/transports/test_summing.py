"""The seam between the runtime and a library that sums."""

import inspect
from typing import Any

import pytest
from support.devices.late_sums import LateSums

from weft.transports.summing import Summing
from weft.transports.torch_distributed import TorchSums

CALLS = ["meet", "notes", "hear", "gradients", "beside", "copy", "begin", "close"]


@pytest.mark.parametrize("kind", [TorchSums, LateSums])
@pytest.mark.parametrize("call", CALLS)
def test_every_library_is_called_alike(kind: Any, call: str) -> None:
    wanted, given = (inspect.signature(getattr(each, call)).parameters for each in (Summing, kind))
    assert list(given) == list(wanted)


def test_all_calls_of_the_seam_are_compared() -> None:
    assert [name for name in vars(Summing) if not name.startswith("_")] == [*CALLS[:3], "is_ready", *CALLS[3:]]
