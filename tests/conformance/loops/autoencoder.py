"""A variational autoencoder as in many a tutorial: two losses, both summed over the batch, and Adam."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader

import weft


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, 8)
        self.fc22 = nn.Linear(48, 8)
        self.fc3 = nn.Linear(8, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def images(num_samples, seed):
    """Six patterns of 8 x 8 in black and white, with some dots the other way round."""
    patterns = torch.rand(6, 8, 8, generator=torch.Generator().manual_seed(0)) < 0.4
    generator = torch.Generator().manual_seed(seed)
    which = torch.randint(0, 6, (num_samples,), generator=generator)
    flips = torch.rand(num_samples, 8, 8, generator=generator) < 0.05
    return (patterns[which] ^ flips).float()


def test(model, data):
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        recon, mu, logvar = model(data)
        return loss_function(recon, data, mu, logvar).item() / len(data)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args(argv)
    torch.manual_seed(1)
    train_loader = DataLoader(images(1024, 1), batch_size=args.batch_size, shuffle=True)
    test_data = images(256, 2)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    worker = weft.join(model, optimizer)
    train_loader = worker.share(train_loader)
    losses = [test(model, test_data)]
    for epoch in range(1, args.epochs + 1):
        model.train()
        train_loss = 0
        for data in train_loader:
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.4f}")
        losses.append(test(model, test_data))
    worker.report(loss=lambda: test(model, test_data))
    return losses


if __name__ == "__main__":
    main()
