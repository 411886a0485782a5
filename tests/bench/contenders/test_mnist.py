"""The script of `weft bench slownet`."""

from pathlib import Path

import pytest
import torch
from support.scripts.mnist_files import write_tiny_mnist

import weft
from weft.bench.contenders.mnist import load, main


def test_files_are_read_packed_or_not_as_rows_around_zero(tmp_path: Path) -> None:
    x, y, x_test, y_test = load(str(write_tiny_mnist(tmp_path)))
    assert (x.shape, x_test.shape) == ((64, 784), (8, 784))
    assert torch.equal(y, torch.arange(64) % 2)
    assert torch.equal(y_test, torch.arange(8) % 2)
    torch.testing.assert_close(x_test[1], torch.full((784,), 0.87))


def test_alone_it_reports_every_so_many_steps_and_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    joined = weft.join

    def watched(*args: object) -> object:
        worker = joined(*args)
        monkeypatch.setattr(worker, "report", lambda accuracy: told.append(accuracy))
        return worker

    monkeypatch.setattr(weft, "join", watched)
    said = {"workers": 1, "batch-size": 8, "lr": 0.01, "score-every": 4, "steps": 17, "hidden": 16}
    options = [text for name, value in said.items() for text in (f"--{name}", str(value))]
    monkeypatch.setattr("sys.argv", ["mnist.py", "--data", str(write_tiny_mnist(tmp_path)), *options])
    main()
    assert len(told) == 17 // 4
    assert told[-1] == 1.0
