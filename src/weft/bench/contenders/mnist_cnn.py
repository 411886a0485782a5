"""The script of `weft bench straggler`: a convolutional network on MNIST, scored on the run's result model.

Weft's workers and those of the baseline run it unchanged. A callable is scored by one worker, on what would be saved.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import weft
from weft.bench.contenders.mnist import load

PART = 32
"""So many images are scored at once: they fit into a core's cache."""


def main() -> None:
    """Train; report after every piece of the data, until somebody has seen enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--pieces", type=int, required=True, help="how often an epoch is scored")
    parser.add_argument("--test-every", type=int, required=True, help="scores are of every so-manieth test image")
    parser.add_argument("--epochs", type=int, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y, x_test, y_test = weft.once(load, args.data)
    x_test, y_test = x_test[:: args.test_every].view(-1, 1, 28, 28), y_test[:: args.test_every]
    data = TensorDataset(x.view(-1, 1, 28, 28), y)
    each = [Subset(data, range(i, len(data), args.pieces)) for i in range(args.pieces)]
    pieces = [DataLoader(piece, batch_size=args.batch_size, shuffle=True) for piece in each]
    layers = (nn.Conv2d(1, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    worker = weft.join(model, optimizer)

    def accuracy() -> float:
        with torch.no_grad():
            guesses = [model(part).argmax(1) for part in x_test.split(PART)]
        return float((torch.cat(guesses) == y_test).float().mean())

    for number in worker.epochs(args.epochs * args.pieces):
        for images, labels in worker.share(pieces[number % args.pieces]):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        worker.report(accuracy=accuracy)


if __name__ == "__main__":
    main()
