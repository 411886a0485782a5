"""The machine that figures were measured on."""

import json
import os

from weft.engines.calibrate.machine import machine


def test_a_machine_is_described_in_plain_data() -> None:
    told = machine()
    assert list(told) == ["cpu", "cores", "memory_bytes", "python", "torch", "date"]
    assert told["cpu"]
    assert told["cores"] == os.cpu_count()
    assert told["memory_bytes"] > 2**28
    assert json.loads(json.dumps(told)) == told
