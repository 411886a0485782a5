"""Measures how long a script's iterations take alone."""

import sys
import time
from pathlib import Path

import pytest
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, write

from weft.core.errors import ConfigError, NodeLost
from weft.engines.calibrate.script import measure

BUSY = """
import time
for _ in range(9):
    for rows in worker.share(64, batch_size=4):
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        worker.step({"w": w})
        SEEN.append(len(rows))
"""


def test_it_is_the_median_time_of_a_step_divided_by_its_samples(tmp_path: Path) -> None:
    SEEN.clear()
    start = time.perf_counter()
    seconds = measure(write(tmp_path, ARRAYS, BUSY), (), 5)
    assert 0.002 / 4 <= seconds <= (time.perf_counter() - start) / 4
    assert SEEN == [4] * 10, "as many steps warm up as are measured"


def test_a_torch_script_is_measured_with_its_optimizer_and_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    before = sys.argv, sys.path, sys.modules["__main__"], sys.stdout
    told = "SEEN.append([p.detach().clone() for p in model.parameters()])\n"
    SEEN.clear()
    assert measure(write(tmp_path, TORCH, told, TORCH_JOIN, TORCH_TRAIN, told), (), 2) > 0
    first, last = SEEN
    assert all(not a.equal(b) for a, b in zip(first, last, strict=True))
    assert (sys.argv, sys.path, sys.modules["__main__"], sys.stdout) == before


def test_libraries_have_as_many_threads_as_in_a_worker_unless_it_is_said_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "import os\nSEEN.append((os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS']))\n"
    script = write(tmp_path, ARRAYS, told, ARRAYS_TRAIN)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "anything")
    monkeypatch.delenv("MKL_NUM_THREADS")
    SEEN.clear()
    measure(script, (), 2)
    assert SEEN[0] == ("3", "1")


def test_a_missing_script_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    with pytest.raises(ConfigError) as refused:
        measure(path, (), 2)
    assert str(refused.value) == f"script '{path}' does not exist.\n  Check the path."


def test_a_script_that_never_joins_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "pass\n")
    with pytest.raises(ConfigError) as refused:
        measure(path, (), 2)
    assert str(refused.value) == f"script '{path}' ended without calling weft.join.\n  Add worker = weft.join(...)."


def test_a_script_that_never_steps_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ARRAYS)
    with pytest.raises(ConfigError) as refused:
        measure(path, (), 2)
    assert str(refused.value) == f"script '{path}' joined but never stepped.\n  Call optimizer.step() in its loop."


def test_what_the_script_raises_is_told(tmp_path: Path) -> None:
    with pytest.raises(NodeLost) as lost:
        measure(write(tmp_path, ARRAYS, "1 / 0\n"), (), 2)
    assert str(lost.value) == "the script raised ZeroDivisionError while it was measured: division by zero"
    assert isinstance(lost.value.__cause__, ZeroDivisionError)


def test_what_weft_says_is_told_as_it_is(tmp_path: Path) -> None:
    text = ARRAYS_TRAIN.replace("w - rows.mean()", "w[:1]")
    with pytest.raises(ConfigError, match=r"^the gradient of 'w' has the shape \(1,\), but the array has \(3,\)\."):
        measure(write(tmp_path, ARRAYS, text), (), 2)
