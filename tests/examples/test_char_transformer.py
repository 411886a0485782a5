"""The transformer example: alone and simulated, on a text of its own and on the license of Python."""

import json
import os
import runpy
import sys
from math import log
from pathlib import Path
from typing import Any

import pytest
import torch
from support.processes.commands import weft_command

EXAMPLE = Path(__file__).parents[2] / "examples" / "char_transformer.py"
TINY = ("--layers", "1", "--width", "16", "--context", "8", "--batch-size", "8")
TEXT = "the quick brown fox jumps over the lazy dog. " * 60


def run_alone(*arguments: object) -> dict[str, Any]:
    """`python examples/char_transformer.py ARGUMENTS`, in this process; its names and values at the end."""
    before, sys.argv = sys.argv, [str(EXAMPLE), *map(str, arguments)]
    try:
        with torch.random.fork_rng():
            return runpy.run_path(str(EXAMPLE), run_name="__main__")
    finally:
        sys.argv = before


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_it_learns_a_text_alone(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_alone(*TINY, "--data", text, "--epochs", 2, "--windows", 512, "--lr", 0.01)
    losses = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(losses) == 2
    assert losses[1] < losses[0] < log(len(set(TEXT))), "better than a guess"
    assert losses[1] < 0.5


@pytest.mark.slow
def test_two_simulated_workers_learn_it_together(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    options = ("--data", text, "--epochs", 2, "--windows", 512, "--lr", 0.01)
    ended = weft_command("simulate", EXAMPLE, "-n", 2, "--json", path, "--", *TINY, *options)
    assert ended.code == 0, ended.err
    (row,) = json.loads(path.read_text())
    assert (row["steps"], row["samples"]) == (64, 1024)
    assert row["final"]["validation_loss"] < 1.0


def test_without_a_file_it_reads_what_comes_with_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    license_file = Path(os.__file__).with_name("LICENSE.txt")
    for is_there in (license_file.is_file(), False):
        if not is_there:
            monkeypatch.setattr(Path, "is_file", lambda path: False)
        values = run_alone(*TINY, "--epochs", 1, "--windows", 16)
        assert len(values["text"]) == len(license_file.read_text()) if is_there else len(values["text"]) > 100_000
    assert "validation_loss" in capsys.readouterr().out


def test_it_has_about_three_million_parameters(text: Path) -> None:
    values = run_alone("--data", text, "--epochs", 0)
    assert 2.8e6 < sum(parameter.numel() for parameter in values["model"].parameters()) < 3.3e6
