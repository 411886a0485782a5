"""A generative adversarial network that puts points on a ring: two models, two optimizers, a join for each, in torch.

python examples/ring_gan.py
weft run examples/ring_gan.py -n 4
weft run examples/ring_gan.py -n 4 --strategy gossip
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--batch-size", type=int, default=64, help="samples of one worker in one step")
parser.add_argument("--lr", type=float, default=0.002)
parser.add_argument("--save", help="write the generator to this safetensors file")
args = parser.parse_args()


def ring(num_points):
    """Points near a circle of radius 1."""
    angle = 2 * torch.pi * torch.rand(num_points)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(num_points, 2)


def network(num_inputs, num_outputs):
    return nn.Sequential(
        nn.Linear(num_inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, num_outputs)
    )


@torch.no_grad()
def on_ring():
    """The share of generated points that are near the ring."""
    radius = generator(torch.randn(4096, 2)).norm(dim=1)
    return ((radius - 1).abs() < 0.2).float().mean().item()


torch.manual_seed(0)
loader = DataLoader(TensorDataset(ring(8192)), batch_size=args.batch_size, shuffle=True)
discriminator, generator = network(2, 1), network(2, 2)
opt_d = torch.optim.Adam(discriminator.parameters(), args.lr, betas=(0.5, 0.9))
opt_g = torch.optim.Adam(generator.parameters(), args.lr / 2, betas=(0.5, 0.9))
worker = weft.join(discriminator, opt_d)
weft.join(generator, opt_g)
for epoch in worker.epochs(args.epochs):
    for (real,) in worker.share(loader):
        noise = torch.randn(len(real), 2)
        with torch.no_grad():
            fake = generator(noise)
        opt_d.zero_grad()
        loss_d = torch.relu(1 - discriminator(real)).mean() + torch.relu(1 + discriminator(fake)).mean()
        loss_d.backward()
        opt_d.step()
        opt_g.zero_grad()
        loss_g = -discriminator(generator(noise)).mean()
        loss_g.backward()
        opt_g.step()
    worker.report(on_ring=on_ring)
if args.save:
    worker.save(args.save, of=generator)
