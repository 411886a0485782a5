"""Measures what steps cost while several workers train."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.processes.launches import TRAIN
from support.scripts.training_scripts import write

from weft.core.errors import ConfigError
from weft.engines.calibrate.workers import Point, line, this_machine
from weft.engines.real.job import RealJob
from weft.runtime.connections import LINKS, TCP

BUSY = """
for _ in worker.epochs(9):
    for rows in worker.share(64, batch_size=8):
        until = time.thread_time() + 0.004 + 0.001 * len(rows)
        while time.thread_time() < until:
            pass
        worker.step({"w": w}, samples=len(rows))
    worker.report(accuracy=evaluate)
worker.save("model.safetensors")
"""
EVALUATE = """
def evaluate():
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    return 1.0
"""


@pytest.mark.processes
def test_samples_and_steps_cost_what_they_take_of_a_core_however_many_workers_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = this_machine(
        RealJob(script=write(tmp_path, TRAIN, EVALUATE, BUSY), arguments=(), num_workers=3, transport=TCP), 12
    )
    assert 0.0006 < cluster.seconds_per_sample < 0.002
    assert 0.002 < cluster.seconds_per_step < 0.012
    assert (cluster.num_workers, cluster.num_hosts(3), cluster.within) == (3, 1, LINKS[TCP])
    assert cluster.cores is not None
    assert not (tmp_path / "model.safetensors").exists(), "a model of few steps is not worth another one"


def test_two_batches_tell_what_a_step_costs_besides_its_samples() -> None:
    assert line(Point(8.0, 20.0), Point(2.0, 8.0)) == (2.0, 4.0)
    assert line(Point(8.0, 20.0), None) == (2.5, 0.0)
    assert line(Point(8.0, 20.0), Point(2.0, 4.0)) == (2.5, 0.0), "a step does not cost less than nothing"
    assert line(Point(8.0, 20.0), Point(2.0, 21.0)) == (2.5, 0.0), "nor does a sample"


@pytest.mark.processes
def test_steps_without_samples_are_refused(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN, EVALUATE, BUSY.replace("samples=len(rows)", "samples=0"))
    with pytest.raises(ConfigError, match="have no samples to count"):
        this_machine(replace(RealJob(script=script, arguments=(), num_workers=2), seed=1), 2)
