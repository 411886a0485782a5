"""A small network whose samples may be slow to read in one worker: what benchmarks/blame.py slows down.

weft run benchmarks/blame_course.py -n 4 -- --slow-reader 2 --read-s 0.02
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import weft

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--slow-reader", type=int, default=-1, help="the worker that waits for its data")
parser.add_argument("--read-s", type=float, default=0.0, help="how long it waits for each batch")
options = parser.parse_args()
BATCH_SIZE = 32

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
worker = weft.join(model, optimizer)


class Samples(Dataset):
    """Noise, which may keep its reader waiting."""

    def __len__(self) -> int:
        return worker.num_workers * BATCH_SIZE * options.steps

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if worker.rank == options.slow_reader:
            time.sleep(options.read_s / BATCH_SIZE)
        return torch.full((64,), index % 7 / 7), index % 10


for _ in worker.epochs(1):
    for inputs, labels in worker.share(DataLoader(Samples(), batch_size=BATCH_SIZE)):
        optimizer.zero_grad()
        for _ in range(20):  # as much work as in a deeper network, without more to send
            loss = nn.functional.cross_entropy(model(inputs.repeat(8, 1)), labels.repeat(8))
        loss.backward()
        optimizer.step()
