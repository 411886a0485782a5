"""The script of `weft bench slownet`: a perceptron 784-1024-1024-10 on MNIST, scored by all workers together.

Weft's workers and those of the baselines run it unchanged. Each worker scores its own part of the test samples, at
steps after which all replicas are equal; the mean of what they report is the accuracy.
"""

import argparse
import gzip
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

NAMES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def read(path: Path) -> torch.Tensor:
    """The array in an IDX file, packed or not: its number of sides in byte 3, then the sides, then bytes."""
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
    sides = [int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(1, raw[3] + 1)]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=4 + 4 * len(sides)).view(sides)


def load(folder: str) -> tuple[torch.Tensor, ...]:
    """Images as rows around zero, and labels: to train on, and to test with."""
    x, y, x_test, y_test = (read(Path(folder, f"{name}-ubyte")) for name in NAMES)
    return x.flatten(1).float() / 255 - 0.13, y.long(), x_test.flatten(1).float() / 255 - 0.13, y_test.long()


def main() -> None:
    """Train; report at every so many steps, until somebody has seen enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--score-every", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--hidden", type=int, default=1024)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, y, x_test, y_test = weft.once(load, args.data)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
    layers = (nn.Linear(28 * 28, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU())
    model = nn.Sequential(*layers, nn.Linear(args.hidden, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    worker = weft.join(model, optimizer)
    mine = slice(worker.rank, None, args.workers)
    for _ in worker.epochs(args.steps):
        for images, labels in worker.share(loader):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if worker.steps % args.score_every == 0:
                with torch.no_grad():
                    worker.report(accuracy=(model(x_test[mine]).argmax(1) == y_test[mine]).float().mean().item())
            if worker.steps == args.steps:
                return


if __name__ == "__main__":
    main()
