"""Contenders and how they are started."""

import os
import sys
from pathlib import Path

import pytest

from weft.bench import contender
from weft.bench.contender import BenchmarkContender, missing_mpi, mortal_run, mpirun, netted_ddp, process, weft_run


def test_a_contender_is_called_by_its_name_unless_it_stands_for_another() -> None:
    assert BenchmarkContender("ddp", "m").ratio_name == "ddp"
    assert BenchmarkContender("ddp-view", "m", rival="ddp").ratio_name == "ddp"


def test_open_mpi_is_oversubscribed_only_when_there_are_more_processes_than_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    program = str(Path(sys.executable).with_name("mpirun"))
    assert mpirun("m", 2, "{}") == [program, "-n", "2", *process("m", "{}")]
    assert mpirun("m", 4, "{}") == [program, "--oversubscribe", "-n", "4", *process("m", "{}")]


def test_open_mpi_lets_root_run_only_when_it_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert mpirun("m", 1, "{}")[1] == "--allow-run-as-root"


def test_a_missing_open_mpi_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contender, "_mpirun", lambda: tmp_path / "mpirun")
    assert missing_mpi() == "not installed: make bench-peers"
    (tmp_path / "mpirun").touch()
    monkeypatch.setattr(contender, "find_spec", lambda name: name)
    assert missing_mpi() == ""


def test_weft_runs_the_file_of_the_module() -> None:
    command = weft_run("weft.bench.contenders.training", 2, "{}")
    assert command[1:5] == ["-P", "-m", "weft", "run"]
    assert Path(command[5]).is_file()
    assert command[6:] == ["-n", "2", "--", "{}"]


def test_a_run_that_a_loss_ends_is_the_same_with_one_option() -> None:
    options = mortal_run("weft.bench.contenders.training", 2, "{}")
    assert options[6:] == ["-n", "2", "--on-loss", "stop", "--", "{}"]
    assert options[:6] == weft_run("weft.bench.contenders.training", 2, "{}")[:6]


def test_ddp_over_emulated_links_is_started_by_a_module_of_its_own() -> None:
    command = netted_ddp("1gbit", "weft.bench.contenders.training", 2, "{}")
    assert command[1:4] == ["-P", "-m", "weft.bench.netted_ddp"]
    assert Path(command[4]).is_file()
    assert command[5:] == ["2", "1gbit", "{}"]
