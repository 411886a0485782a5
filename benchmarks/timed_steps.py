"""A perceptron on random samples whose worker 0 says how long its steps took: the script of cluster_prediction.py."""

import argparse
import time
from statistics import mean, median

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft

INPUTS, CLASSES, SAMPLES, WARM = 784, 10, 32_768, 8

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--hidden", type=int, default=1024, help="width of the two hidden layers")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(0)
layers = (nn.Linear(INPUTS, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden), nn.ReLU())
model = nn.Sequential(*layers, nn.Linear(args.hidden, CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
data = TensorDataset(torch.randn(SAMPLES, INPUTS), torch.randint(CLASSES, (SAMPLES,)))
worker = weft.join(model, optimizer)
ends_s: list[float] = []
for _ in worker.epochs(1000):
    for images, labels in worker.share(DataLoader(data, batch_size=args.batch_size, shuffle=True)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        ends_s.append(time.perf_counter())
        if worker.steps == args.steps:
            break
    if worker.steps == args.steps:
        break
steps_s = [after - before for before, after in zip(ends_s[WARM:], ends_s[WARM + 1 :])]
if worker.rank == 0 and steps_s:
    print(f"step_s mean {mean(steps_s)} median {median(steps_s)}", flush=True)
