"""A multilayer perceptron on MNIST, in torch.

python examples/mnist_mlp.py
weft simulate examples/mnist_mlp.py -n 4 --strategy gossip --cluster cloud -- --hidden 64

It reads the four files of MNIST (train-images-idx3-ubyte.gz and so on, unpacked or not) from data/mnist or --data
FOLDER. Without them it trains on the digits of scikit-learn, scaled up to the same size.
"""

import argparse
import gzip
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="the folder of MNIST")
parser.add_argument("--hidden", type=int, default=1024, help="width of the two hidden layers")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32, help="samples of one worker in one step")
parser.add_argument("--lr", type=float, default=0.05)
args = parser.parse_args()


def read_idx(path):
    """The array in an IDX file: its number of sides in byte 3, then the sides, then bytes."""
    packed = path.with_name(path.name + ".gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
    sides = [int.from_bytes(raw[4 * i : 4 * i + 4], "big") for i in range(1, raw[3] + 1)]
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=4 + 4 * len(sides)).view(sides)


def load():
    """Images of 28x28 bytes and labels, to train on and to test with."""
    folder = args.data or Path("data/mnist")
    if args.data or folder.is_dir():
        names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
        x, y, x_test, y_test = (read_idx(folder / f"{name}-ubyte") for name in names)
        return x, y.long(), x_test, y_test.long()
    print("no MNIST in data/mnist: training on the digits of scikit-learn", flush=True)
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(y)
    x = (nn.functional.interpolate(x, size=(28, 28), mode="bilinear").squeeze(1) * 255 / 16).byte()
    test = torch.arange(len(x)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


def predict(images):
    return model(images.flatten(1).float() / 255 - 0.13)


@torch.no_grad()
def evaluate():
    return (predict(x_test).argmax(1) == y_test).float().mean().item()


torch.manual_seed(0)
x, y, x_test, y_test = weft.once(load)
loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
layers = (nn.Linear(28 * 28, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU())
model = nn.Sequential(*layers, nn.Linear(args.hidden, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
worker = weft.join(model, optimizer)
worker.tune(lr=(0.005, 0.5))  # for --strategy population
for epoch in worker.epochs(args.epochs):
    for images, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(predict(images), labels).backward()
        optimizer.step()
    scheduler.step()
    worker.report(accuracy=evaluate)
