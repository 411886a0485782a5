"""A classifier as in a first tutorial: Adadelta, a scheduler by epochs, train() and test()."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

import weft


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(8 * 3 * 3, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        return F.log_softmax(self.fc(self.dropout(torch.flatten(x, 1))), dim=1)


def images(num_samples, seed):
    """Ten patterns of 8 x 8, each with much noise on it."""
    patterns = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (num_samples,), generator=generator)
    return TensorDataset(patterns[labels] + torch.randn(num_samples, 1, 8, 8, generator=generator), labels)


def train(args, model, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}]\tLoss: {loss.item():.6f}")


def test(model, test_loader):
    model.eval()
    test_loss = 0
    with torch.no_grad():
        for data, target in test_loader:
            test_loss += F.nll_loss(model(data), target, reduction="sum").item()
    return test_loss / len(test_loader.dataset)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args(argv)
    torch.manual_seed(1)
    train_loader = DataLoader(images(1024, 1), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(images(256, 2), batch_size=128)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    worker = weft.join(model, optimizer)
    losses = [test(model, test_loader)]
    for epoch in range(1, args.epochs + 1):
        train(args, model, worker.share(train_loader), optimizer, epoch)
        losses.append(test(model, test_loader))
        scheduler.step()
    worker.report(loss=lambda: test(model, test_loader))
    return losses


if __name__ == "__main__":
    main()
