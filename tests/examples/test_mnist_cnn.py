"""The convolutional MNIST example: it is scored several times in an epoch, and learns."""

from pathlib import Path

import pytest
from support.scripts.examples import run_example
from support.scripts.mnist_files import write_mnist


@pytest.mark.slow
def test_an_epoch_is_scored_as_often_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_mnist(tmp_path, train=400, test=50)
    run_example("mnist_cnn.py", "--data", folder, "--reports", 3, "--epochs", 2, "--batch-size", 4, "--lr", 0.01)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert float(lines[-1].split()[-1]) == 1.0


def test_its_accuracy_is_of_every_so_manieth_test_image(tmp_path: Path) -> None:
    values = run_example("mnist_cnn.py", "--data", write_mnist(tmp_path), "--epochs", 0, "--test-every", 2)
    values["x_test"][1::2] = 0
    before = values["evaluate"]()
    values["x_test"][0::2] = 0
    assert len({values["evaluate"](), before}) <= 2
    assert before in [count / 5 for count in range(6)]
