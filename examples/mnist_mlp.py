"""A multilayer perceptron on MNIST, in torch.

python examples/mnist_mlp.py
weft simulate examples/mnist_mlp.py -n 4 --strategy gossip --cluster cloud -- --hidden 64

It reads the four files of MNIST from data/mnist or --data FOLDER, or trains on the digits of scikit-learn.
"""

import argparse

import torch
from mnist_data import load
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", help="the folder of MNIST")
parser.add_argument("--hidden", type=int, default=1024, help="width of the two hidden layers")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--batch-size", type=int, default=32, help="samples of one worker in one step")
parser.add_argument("--lr", type=float, default=0.05)
args = parser.parse_args()


def predict(images):
    return model(images.flatten(1).float() / 255 - 0.13)


@torch.no_grad()
def evaluate():
    return (predict(x_test).argmax(1) == y_test).float().mean().item()


torch.manual_seed(0)
x, y, x_test, y_test = weft.once(load, args.data)
loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
layers = (nn.Linear(28 * 28, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU())
model = nn.Sequential(*layers, nn.Linear(args.hidden, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
worker = weft.join(model, optimizer)
worker.keep(scheduler=scheduler)
worker.tune(lr=(0.005, 0.5))  # for --strategy population
for epoch in worker.epochs(args.epochs):
    for images, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(predict(images), labels).backward()
        optimizer.step()
    scheduler.step()
    worker.report(accuracy=evaluate)
