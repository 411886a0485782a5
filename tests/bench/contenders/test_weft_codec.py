"""Every codec of the benchmark, by Weft."""

import numpy as np
import pytest

from weft.bench.codecs import NAMES
from weft.bench.contender import BenchmarkContender
from weft.bench.contenders.gradients import ERRORS_MAX, gradients
from weft.bench.contenders.weft_codec import CODECS
from weft.bench.group import Group
from weft.codecs import Form, Turn


@pytest.mark.parametrize("name", NAMES)
def test_a_round_trip_is_about_right(name: str) -> None:
    values, said, form = gradients(1 << 16), np.empty(1 << 16, np.float32), Form(1 << 16)
    velocity = np.zeros_like(values) if name == "dgc" else None
    CODECS[name].decode(CODECS[name].encode(values, None, form, Turn(), velocity).payload, said, form)
    wanted = np.sign(values) if name == "signsgd" else values
    assert np.linalg.norm(said - wanted) <= ERRORS_MAX[name] * np.linalg.norm(wanted)


def test_it_is_measured_in_a_process_of_its_own() -> None:
    with Group(BenchmarkContender("weft", "weft.bench.contenders.weft_codec"), "dgc/256KiB", 1) as group:
        group.meet()
        assert group.block(2) > 0
