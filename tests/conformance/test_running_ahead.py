"""Scripts that run ahead of their gradients see bit for bit what they see without: loops as people write them."""

from pathlib import Path

import pytest
from support.processes.real import Heard, real

from weft.config.options import Options, ReduceOptions
from weft.engines.real.outcome import RealOutcome

SCRIPT = """
import copy, hashlib, io, threading, time
import numpy as np
import torch
import weft
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(96, 1, 6, 6), torch.randint(0, 3, (96,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), NORM, nn.ReLU(), nn.Flatten(), nn.Linear(128, 40), nn.ReLU(), nn.Linear(40, 3)
)
optimizer = MAKE_OPTIMIZER
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.7)
worker = weft.join(model, optimizer)
seen = hashlib.sha256()

def note(value):
    seen.update(np.float64(value).tobytes())

BEFORE
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        time.sleep(0.01 * worker.rank)  # the other one runs ahead of this one's gradients
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        IN_BACKWARD
        optimizer.step()
        AFTER
    model.eval()
    worker.report(accuracy=lambda: float((model(x).argmax(1) == y).float().mean()))
    model.train()
for tensor in model.state_dict().values():
    seen.update(tensor.numpy().tobytes())
print("saw", seen.hexdigest())
"""
MOMENTUM = "torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)"
ADAM = "torch.optim.Adam([{'params': model[0].parameters()}, {'params': model[1:].parameters(), 'lr': 0.002}], 0.01)"
READS = """
reads = [
    scheduler.step,
    lambda: optimizer.param_groups[0].update(lr=0.95 * optimizer.param_groups[0]["lr"]),
    lambda: average.update_parameters(model),
    lambda: note(sum(p.detach().sum().item() for p in average.parameters())),
    lambda: note(model[4].weight.detach().abs().max()),
    lambda: note(sum(v.double().sum().item() for v in model.state_dict().values())),
    lambda: note(sum(v["step"] for v in optimizer.state_dict()["state"].values() if "step" in v)),
    lambda: note(next(copy.deepcopy(model).parameters()).sum().item()),
    lambda: (model.eval(), note(model(x[:8]).sum().item()), model.train()),
    lambda: in_thread(lambda: note(model[4].weight.sum().item())),
    lambda: note(saved()[6].bias[0].item()),
]
average = torch.optim.swa_utils.AveragedModel(model)

def saved():
    torch.save(model, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
"""
LOOPS = {
    "plain": ("", "", ""),
    "buffers": ("", "", ""),
    "reads after the step": (READS, "", "reads[worker.steps % len(reads)]()"),
    "clip": ("", "nn.utils.clip_grad_norm_(model.parameters(), 0.5)", ""),
    "norms of gradients": ("", "note(sum(p.grad.norm().item() for p in model.parameters()))", ""),
    "gradients without asking torch": ("", "note(model[0].weight.grad.numpy().sum())", ""),
    "weights clamped": ("", "", "[p.data.clamp_(-0.5, 0.5) for p in model.parameters()]"),
    "steps skipped": ("step, optimizer.step = optimizer.step, lambda: worker.steps % 3 == 2 or step()", "", ""),
    "zeros kept": ("zero, optimizer.zero_grad = optimizer.zero_grad, lambda: zero(set_to_none=False)", "", ""),
    "hook": ("optimizer.register_step_post_hook(lambda *_: note(model[0].weight.sum().item()))", "", ""),
}
STEPS_AHEAD = {
    "plain": 24, "buffers": 24, "reads after the step": 24, "clip": 1, "norms of gradients": 1,
    "gradients without asking torch": 1, "weights clamped": 1, "steps skipped": 24, "zeros kept": 1, "hook": 0,
}  # fmt: skip
"""In how many of 24 steps the script runs ahead; what is refused is seen in the first, as a rule."""


def run(folder: Path, loop: str, optimizer: str, *, runs_ahead: bool) -> tuple[list[str], RealOutcome]:
    before, in_backward, after = LOOPS[loop]
    script, heard = folder / "train.py", Heard()
    norm = "nn.BatchNorm2d(8)" if loop == "buffers" else "nn.Identity()"
    text = SCRIPT.replace("NORM", norm).replace("MAKE_OPTIMIZER", optimizer).replace("BEFORE", before)
    script.write_text(text.replace("IN_BACKWARD", in_backward).replace("AFTER", after))
    options = Options(reduce=ReduceOptions(runs_ahead=runs_ahead))
    outcome = real(script, 2, "allreduce", heard=heard, transport="tcp", options=options)
    return sorted(f"{rank} {text}" for rank, text, _ in heard.lines if text.startswith("saw")), outcome


@pytest.mark.parametrize("loop", LOOPS)
def test_what_a_script_sees_is_the_same_to_the_last_bit(loop: str, tmp_path: Path) -> None:
    optimizer = ADAM if len(loop) % 2 else MOMENTUM
    expected, waited = run(tmp_path, loop, optimizer, runs_ahead=False)
    seen, outcome = run(tmp_path, loop, optimizer, runs_ahead=True)
    assert len(expected) == 2
    assert seen == expected
    assert {status.steps_ahead for status in waited.workers} == {0}
    assert {status.steps_ahead for status in outcome.workers} == {STEPS_AHEAD[loop]}
