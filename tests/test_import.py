"""Importing weft is quick and brings in no framework."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

CHILD = """
import json, sys, time
start = time.perf_counter()
import weft
seconds = time.perf_counter() - start
after_weft = list(sys.modules)
from weft.cli.app import VERBS, app_of
app_of(VERBS)
print(json.dumps({"seconds": seconds, "weft": after_weft, "command": list(sys.modules)}))
"""
FRAMEWORKS = {"torch", "jax", "sklearn", "matplotlib", "keras", "tensorflow", "ray"}


@pytest.fixture(scope="module")
def children() -> list[dict[str, Any]]:
    """What three fresh processes saw; the first one compiles what no process before it has."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CHILD]
    runs = [subprocess.run(command, env=env, capture_output=True, text=True, check=True) for _ in range(3)]
    return [json.loads(run.stdout) for run in runs]


def test_importing_weft_takes_under_a_fifth_of_a_second(children: list[dict[str, Any]]) -> None:
    assert min(child["seconds"] for child in children) < 0.2


@pytest.mark.parametrize("what", ["weft", "command"])
def test_no_framework_is_imported(children: list[dict[str, Any]], what: str) -> None:
    assert FRAMEWORKS & set(children[0][what]) == set()
    assert "weft.adapters.join" in children[0][what]
    assert "weft.testing" not in children[0][what]
