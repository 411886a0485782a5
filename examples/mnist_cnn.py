"""A convolutional network on MNIST, in torch, that reports its accuracy several times in an epoch.

python examples/mnist_cnn.py
weft compare examples/mnist_cnn.py -n 4 --slow 0:4 --strategy allreduce --strategy async_gossip --baseline ddp \
    --target accuracy=0.97 --report out/slow.html -- --data FOLDER

It reads the four files of MNIST from data/mnist or --data FOLDER, or trains on the digits of scikit-learn.
"""

import argparse

import torch
from mnist_data import load
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import weft

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", help="the folder of MNIST")
parser.add_argument("--epochs", type=float, default=1.0)
parser.add_argument("--batch-size", type=int, default=32, help="samples of one worker in one step")
parser.add_argument("--lr", type=float, default=0.03)
parser.add_argument("--reports", type=int, default=10, help="how often an epoch is scored")
parser.add_argument("--test-every", type=int, default=5, help="score on every so-manieth test image")
args = parser.parse_args()


def predict(images):
    return model(images.unsqueeze(1).float() / 255 - 0.13)


@torch.no_grad()
def evaluate():
    images, labels = x_test[:: args.test_every].split(250), y_test[:: args.test_every].split(250)
    right = sum((predict(part).argmax(1) == truth).sum().item() for part, truth in zip(images, labels))
    return right / sum(map(len, labels))


torch.manual_seed(0)
x, y, x_test, y_test = weft.once(load, args.data)
data = TensorDataset(x, y)
pieces = [
    DataLoader(Subset(data, range(i, len(x), args.reports)), batch_size=args.batch_size, shuffle=True)
    for i in range(args.reports)
]
layers = (nn.Conv2d(1, 32, 5, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
model = nn.Sequential(*layers, nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
worker = weft.join(model, optimizer)
for number in worker.epochs(round(args.epochs * args.reports)):
    for images, labels in worker.share(pieces[number % args.reports]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(predict(images), labels).backward()
        optimizer.step()
    worker.report(accuracy=evaluate)
