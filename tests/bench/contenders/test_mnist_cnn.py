"""The script of `weft bench straggler`."""

from pathlib import Path

import pytest
from support.scripts.mnist_files import write_mnist

from weft.bench.contenders.mnist_cnn import main


@pytest.mark.slow
def test_alone_it_reports_after_every_piece_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"batch-size": 4, "lr": 0.03, "pieces": 3, "test-every": 2, "epochs": 2}
    options = [text for name, value in said.items() for text in (f"--{name}", str(value))]
    monkeypatch.setattr("sys.argv", ["mnist_cnn.py", "--data", str(write_mnist(tmp_path, train=300)), *options])
    main()
    told = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(told) == 3 * 2
    assert told[-1] >= 0.8
