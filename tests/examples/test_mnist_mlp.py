"""The MNIST example: alone and simulated, on digits and on files like those of MNIST."""

import json
from functools import partial
from pathlib import Path

import pytest
from support.processes.commands import weft_command
from support.scripts.examples import run_example
from support.scripts.mnist_files import write_mnist

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist_mlp.py"
NOTICE = "no MNIST in data/mnist: training on the digits of scikit-learn"


run_alone = partial(run_example, "mnist_mlp.py")


@pytest.fixture(params=["", ".gz"])
def mnist(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_mnist(tmp_path, request.param)


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


@pytest.mark.slow
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
