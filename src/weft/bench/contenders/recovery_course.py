"""What all contenders of `weft bench recovery` train: the convolutional network of examples/mnist_cnn.py on MNIST."""

from pathlib import Path

import torch
from torch import Tensor, nn

from weft.bench.contenders.mnist import NAMES, read
from weft.bench.step_log import RecoveryTask

PART = 250
"""So many images are scored at once."""


def load_images(folder: str) -> tuple[Tensor, ...]:
    """Images of bytes and labels: to train on, and to test with."""
    x, y, x_test, y_test = (read(Path(folder, f"{name}-ubyte")) for name in NAMES)
    return x, y.long(), x_test, y_test.long()


class DigitsNet(nn.Module):
    """Takes images of bytes; with `width` 32, 246,026 parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        convolutions = (nn.Conv2d(1, width, 5, stride=2), nn.ReLU(), nn.Conv2d(width, 2 * width, 3), nn.ReLU())
        head = (nn.MaxPool2d(2), nn.Flatten(), nn.Linear(50 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 10))
        self.layers = nn.Sequential(*convolutions, *head)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images.unsqueeze(1).float() / 255 - 0.13)
        return scores


def model_and_optimizer(task: RecoveryTask) -> tuple[DigitsNet, torch.optim.Optimizer]:
    """The same parameters in every process."""
    torch.manual_seed(task.seed)
    model = DigitsNet(task.width)
    return model, torch.optim.SGD(model.parameters(), lr=task.lr, momentum=0.9)


@torch.no_grad()
def accuracy_of(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The fraction of images whose label is found."""
    guesses = [model(images[first : first + PART]).argmax(1) for first in range(0, len(images), PART)]
    return float((torch.cat(guesses) == labels).float().mean())
