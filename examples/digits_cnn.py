"""A small convolutional network on the digits of scikit-learn, in torch.

python examples/digits_cnn.py
weft run examples/digits_cnn.py -n 4
weft run examples/digits_cnn.py -n 3 --on ray
weft simulate examples/digits_cnn.py -n 64 --strategy 'gossip(topology=torus)' --cluster edge -- --lr 0.1
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=4, help="samples of one worker in one step")
parser.add_argument("--lr", type=float, default=0.03)
parser.add_argument("--save", help="write the trained model to this safetensors file")
args = parser.parse_args()


def load():
    """Images in [0, 1] and labels; every fifth one is for testing."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(y)
    test = torch.arange(len(x)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(self.dropout(x.flatten(1)))


@torch.no_grad()
def evaluate(model):
    model.eval()
    accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    model.train()
    return accuracy


torch.manual_seed(0)
x, y, x_test, y_test = weft.once(load)
loader = DataLoader(TensorDataset(x, y), batch_size=args.batch_size, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
worker = weft.join(model, optimizer)
worker.keep(scheduler=scheduler)
worker.tune(lr=(0.003, 0.3), momentum=(0.5, 0.95))  # for --strategy population
for epoch in worker.epochs(args.epochs):
    for images, labels in worker.share(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    scheduler.step()
    worker.report(accuracy=lambda: evaluate(model))
if args.save:
    worker.save(args.save)
