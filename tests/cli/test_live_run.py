"""Runs on the screen: what they say of themselves is part of their output only when it is asked for."""

from pathlib import Path

import pytest
from scripts import ARRAYS, ARRAYS_TRAIN, write

from weft.cli import streams
from weft.cli.live_run import simulate_shown, watched
from weft.config.cluster import load_cluster
from weft.engines.simulated_job import Job


@pytest.mark.parametrize("dry", [False, True])
def test_a_simulated_run_explains_itself_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dry: bool
) -> None:
    job = Job(write(tmp_path, ARRAYS, ARRAYS_TRAIN), (), load_cluster("edge"), 2, "allreduce")
    quiet = simulate_shown(job, "allreduce", dry)
    assert "cluster 'edge'" not in capsys.readouterr().out
    told = simulate_shown(job, "allreduce", dry, explain=True)
    assert "cluster 'edge'" in capsys.readouterr().out
    assert told.trace == quiet.trace
    assert told.replicas == []


def test_whoever_watches_a_run_has_figures_that_must_not_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_run_started", False)
    with watched(2, "ssp"):
        assert streams._run_started
