"""What the MNIST examples read, with and without MNIST."""

from pathlib import Path
from typing import Any

import pytest
from support.scripts.examples import run_example
from support.scripts.mnist_files import write_mnist


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    values = run_example("mnist_data.py")
    assert capsys.readouterr().out.splitlines()[-1] == "1,437 images to train on, 360 to test with"
    return values


def test_a_folder_is_read_and_bytes_stay_bytes(tmp_path: Path, reading: dict[str, Any]) -> None:
    x, y, x_test, y_test = reading["load"](write_mnist(tmp_path))
    assert (tuple(x.shape), tuple(x_test.shape)) == ((40, 28, 28), (10, 28, 28))
    assert x[7, 7].tolist() == [255] * 28
    assert (y[:10].tolist(), y_test.tolist()) == (list(range(10)), list(range(10)))


def test_without_a_folder_the_usual_one_is_looked_at_and_then_digits_are_taken(
    tmp_path: Path, reading: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, x_test, _ = reading["load"](None)
    assert len(x) + len(x_test) == len(y) + len(x_test) == 1797
    assert "training on the digits" in capsys.readouterr().out
    folder = tmp_path / "data/mnist"
    folder.mkdir(parents=True)
    write_mnist(folder)
    assert len(reading["load"](None)[0]) == 40
