"""Every codec of the benchmark, in torch operations."""

import numpy as np
import pytest
import torch

from weft.bench.codecs import NAMES
from weft.bench.contender import BenchmarkContender
from weft.bench.contenders.gradients import ERRORS_MAX, CodecCase, gradients
from weft.bench.contenders.torch_codec import largest, pack, pair_of, unpack
from weft.bench.group import Group


@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_is_about_right(name: str) -> None:
    values, number = gradients(1 << 16), 1 << 16
    encode, decode = pair_of(CodecCase(name, number, False), torch.from_numpy(values))
    said = decode(encode(), torch.empty(number)).numpy()
    wanted = np.sign(values) if name == "signsgd" else values
    assert np.linalg.norm(said - wanted) <= ERRORS_MAX[name] * np.linalg.norm(wanted)


def test_the_largest_are_exact_and_bits_come_back() -> None:
    total = torch.from_numpy(gradients(1 << 18))
    expected = torch.topk(total.abs(), 2000).indices
    assert set(largest(total, 2000).tolist()) == set(expected.tolist())
    assert unpack(pack(total >= 0)).equal(total >= 0)


def test_it_is_measured_in_a_process_of_its_own() -> None:
    with Group(BenchmarkContender("torch", "weft.bench.contenders.torch_codec"), "topk-decode/256KiB", 1) as group:
        group.meet()
        assert group.block(2) > 0
