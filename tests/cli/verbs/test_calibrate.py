"""weft calibrate."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import assert_refused, weft_command
from support.processes.launches import TRAIN
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, simulated, write

from weft.config.cluster import load_cluster


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path, ARRAYS, ARRAYS_TRAIN)


def test_it_writes_a_cluster_file_with_what_it_measured_and_that_file_simulates(tmp_path: Path, script: Path) -> None:
    output = tmp_path / "mine.toml"
    ended = weft_command("calibrate", script, "--cluster", "edge", "-o", output, "--steps", 2)
    assert (ended.code, ended.err) == (0, "")
    cluster = load_cluster(str(output))
    told = re.match(r"(\S+) seconds per sample here; with the speed of codecs in ", ended.out)
    assert told is not None
    assert 0 < cluster.seconds_per_sample == pytest.approx(float(told[1]), rel=1e-3)
    measured: dict[str, Any] = {"seconds_per_sample": cluster.seconds_per_sample, "codecs": cluster.codecs}
    assert cluster == replace(load_cluster("edge"), **measured)
    assert {"topk", "onebit", "left"} <= {name for name, _ in cluster.codecs}
    assert simulated(script, 2, cluster=str(output)).facts.virtual_s > 0


def test_the_file_is_named_after_the_cluster_unless_told_otherwise(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert weft_command("calibrate", script, "--steps", 1).code == 0
    assert load_cluster("rack-calibrated.toml").name == "rack"


def test_arguments_after_two_dashes_are_the_scripts(tmp_path: Path) -> None:
    path = write(tmp_path, "import sys\n", ARRAYS, "assert sys.argv[1:] == ['--lr', '3']\n", ARRAYS_TRAIN)
    ended = weft_command("calibrate", path, "--steps", 1, "-o", tmp_path / "a.toml", "--", "--lr", "3")
    assert (ended.code, ended.err) == (0, "")


def test_what_cannot_be_measured_or_written_is_refused_first(tmp_path: Path, script: Path) -> None:
    output = tmp_path / "none" / "a.toml"
    for arguments, because in [
        ((script, "--steps", 0), "--steps is 0, but at least 1 must be measured.\n  Use --steps 20."),
        (
            (script, "-o", output),
            f"'{output}' cannot be written: there is no folder '{output.parent}'.\n  Make it first.",
        ),
        ((tmp_path / "no.py",), f"script '{tmp_path / 'no.py'}' does not exist.\n  Check the path."),
        (
            (script, "--cluster", "clod"),
            "cluster 'clod' is not known.\n  Did you mean 'cloud'? A path to a file ends in .toml.",
        ),
    ]:
        assert_refused("calibrate", *arguments, because=because)


def test_a_script_that_raises_ends_with_1_and_its_traceback_last(tmp_path: Path) -> None:
    ended = weft_command("calibrate", write(tmp_path, ARRAYS, "1 / 0\n"), "-o", tmp_path / "a.toml")
    assert ended.code == 1
    lines = ended.err.splitlines()
    assert lines[0] == "NodeLost: the script raised ZeroDivisionError while it was measured: division by zero"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert not (tmp_path / "a.toml").exists()


@pytest.mark.processes
def test_several_workers_are_measured_together_and_the_file_is_this_machine(tmp_path: Path) -> None:
    output = tmp_path / "here.toml"
    script = write(tmp_path, TRAIN, ARRAYS_TRAIN.replace("worker.report(total=lambda: w.sum())", ""))
    ended = weft_command("calibrate", script, "-n", 2, "-o", output, "--steps", 2)
    assert ended.code == 0, ended.err
    cluster = load_cluster(str(output))
    assert (cluster.name, cluster.num_workers) == ("this machine", 2)
    assert cluster.cores is not None
    assert simulated(script, 2, cluster=str(output)).facts.virtual_s > 0


def test_this_machine_is_not_written_into_another_ones_figures(script: Path) -> None:
    because = "-n measures this machine, --cluster writes into another one's figures.\n  Leave out one of them."
    assert_refused("calibrate", script, "-n", 2, "--cluster", "edge", because=because)
