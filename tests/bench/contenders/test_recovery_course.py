"""What all contenders of `weft bench recovery` train."""

from pathlib import Path

import torch
from support.scripts.mnist_files import write_mnist

from weft.bench.contenders.recovery_course import DigitsNet, accuracy_of, load_images, model_and_optimizer
from weft.bench.step_log import RecoveryTask


def test_images_stay_bytes_and_labels_are_numbers(tmp_path: Path) -> None:
    x, y, x_test, y_test = load_images(str(write_mnist(tmp_path, train=20, test=10)))
    assert (x.shape, x.dtype, y.dtype, len(x_test), y_test.tolist()) == (
        (20, 28, 28),
        torch.uint8,
        torch.int64,
        10,
        list(range(10)),
    )


def test_it_is_the_network_of_the_example_and_the_same_in_every_process() -> None:
    task = RecoveryTask("", "", 4, 32, 0.02, 20, 7)
    (one, optimizer), (other, _) = model_and_optimizer(task), model_and_optimizer(task)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    assert optimizer.param_groups[0]["lr"] == 0.02
    assert sum(parameter.numel() for parameter in one.parameters()) == 225_546


def test_all_images_are_scored_in_parts() -> None:
    images = torch.randint(256, (601, 28, 28), dtype=torch.uint8)
    model = DigitsNet(2)
    guesses = model(images).argmax(1)
    guesses[:300] = (guesses[:300] + 1) % 10
    assert accuracy_of(model, images, guesses) == torch.tensor(301 / 601).item()
