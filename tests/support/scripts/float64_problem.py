"""A regression in double precision, which a script on many workers and a loop by hand both begin alike."""

import torch
from torch import Tensor, nn

NUM_SAMPLES = 151


def float64_problem() -> tuple[Tensor, Tensor, nn.Sequential, torch.optim.Optimizer]:
    """Inputs, outputs, a model and its optimizer: always the same."""
    torch.manual_seed(0)
    x, y = torch.randn(NUM_SAMPLES, 6).double(), torch.randn(NUM_SAMPLES, 1).double()
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1)).double()
    return x, y, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
