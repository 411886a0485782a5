"""A small perceptron on MNIST that is scored ten times in an epoch: plain SGD, so that staleness alone tells.

weft run benchmarks/mnist_often.py -n 4 -- --data FOLDER
"""

import argparse
import gzip
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import weft

SCORES_PER_EPOCH = 10

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True, help="the folder of MNIST's four files")
parser.add_argument("--scores", type=int, default=36, help="how many tenths of an epoch to train")
parser.add_argument("--lr", type=float, default=0.5)
args = parser.parse_args()


def read(name):
    raw = gzip.decompress((args.data / f"{name}-ubyte.gz").read_bytes())
    sides = [int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(1, raw[3] + 1)]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=4 + 4 * len(sides)).view(sides)


def load():
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    x, y, x_test, y_test = map(read, names)
    return x.flatten(1).float() / 255 - 0.13, y.long(), x_test.flatten(1).float() / 255 - 0.13, y_test.long()


@torch.no_grad()
def evaluate():
    return (model(x_test).argmax(1) == y_test).float().mean().item()


torch.manual_seed(0)
x, y, x_test, y_test = weft.once(load)
data = TensorDataset(x, y)
tenths = [DataLoader(Subset(data, range(i, len(x), SCORES_PER_EPOCH)), batch_size=32, shuffle=True) for i in range(10)]
model = nn.Sequential(nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
worker = weft.join(model, optimizer)
for number in worker.epochs(args.scores):
    for images, labels in worker.share(tenths[number % SCORES_PER_EPOCH]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    worker.report(accuracy=evaluate)
