"""The MNIST example: alone and simulated, on digits and on files like those of MNIST."""

import gzip
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import weft_command

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist_mlp.py"
NOTICE = "no MNIST in data/mnist: training on the digits of scikit-learn"


def run_alone(*arguments: object) -> dict[str, Any]:
    """`python examples/mnist_mlp.py ARGUMENTS`, in this process; its names and values at the end."""
    before, sys.argv = sys.argv, [str(EXAMPLE), *map(str, arguments)]
    try:
        with torch.random.fork_rng():
            return runpy.run_path(str(EXAMPLE), run_name="__main__")
    finally:
        sys.argv = before


def write_idx(path: Path, array: torch.Tensor) -> None:
    """As MNIST's files: two zeros, the type (8: bytes), the number of sides, the sides, the bytes."""
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    raw = bytes([0, 0, 8, array.ndim]) + sides + bytes(array.flatten().tolist())
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.fixture(params=["", ".gz"])
def mnist(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Forty images to train on and ten to test with: image i has its only bright row at its label."""
    for part, count in (("train", 40), ("t10k", 10)):
        labels = torch.arange(count, dtype=torch.uint8) % 10
        images = torch.zeros(count, 28, 28, dtype=torch.uint8)
        images[torch.arange(count), labels.long()] = 255
        write_idx(tmp_path / f"{part}-images-idx3-ubyte{request.param}", images)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte{request.param}", labels)
    return tmp_path


def test_files_of_mnist_are_read_packed_or_not(mnist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = run_alone("--data", mnist, "--hidden", 32, "--batch-size", 4, "--epochs", 8)
    assert values["x"].shape == (40, 28, 28)
    assert values["y_test"].tolist() == list(range(10))
    assert values["x"][3, 3].tolist() == [255] * 28
    lines = capsys.readouterr().out.splitlines()
    assert NOTICE not in lines
    assert lines[-1] == "epoch   8  accuracy 1.0000"


def test_a_folder_without_mnist_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte"):
        run_alone("--data", tmp_path)


def test_without_mnist_it_says_so_and_learns_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_alone("--hidden", 32, "--epochs", 2, "--batch-size", 16)
    notice, *reports = capsys.readouterr().out.splitlines()
    assert notice == NOTICE
    assert float(reports[-1].split()[-1]) > 0.8


def test_two_simulated_workers_learn_digits_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--hidden", 32, "--epochs", 3, "--batch-size", 8)
    ended = weft_command("simulate", EXAMPLE, "-n", 2, "--json", "run.json", "--", *options)
    assert ended.code == 0, ended.err
    (row,) = json.loads((tmp_path / "run.json").read_text())
    assert row["samples"] == 3 * 1437
    assert row["final"]["accuracy"] > 0.8


def test_it_is_the_usual_network_by_default(mnist: Path) -> None:
    model = run_alone("--data", mnist, "--epochs", 0)["model"]
    assert [tuple(layer.weight.shape) for layer in model[::2]] == [(1024, 784), (1024, 1024), (10, 1024)]
