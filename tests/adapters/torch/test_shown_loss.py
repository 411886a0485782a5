"""The loss that is shown is the script's own, whatever it gave to backward."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support.processes.real import Heard, real
from support.scripts.training_scripts import SEEN, TORCH, TORCH_JOIN, simulated, write
from torch.amp import GradScaler

from weft.adapters.torch import shown_loss
from weft.adapters.torch.shown_loss import ShownLoss

WEIGHT = torch.ones(2, requires_grad=True)


def loss_of(value: float) -> torch.Tensor:
    return (WEIGHT * value / 2).sum()


def step(shown: ShownLoss, *losses: torch.Tensor) -> float | None:
    """What is shown of a step after these backwards."""
    for loss in losses:
        shown.before_backward(loss)
        loss.backward()
        shown.after_backward()
    return shown.on_step()


@pytest.fixture
def scaler() -> Iterator[GradScaler]:
    ShownLoss.watch()
    yield GradScaler("cpu")
    GradScaler.scale = shown_loss._plain_scale  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "part", [lambda loss: loss / 4, lambda loss: loss * 0.25, lambda loss: 0.25 * loss, lambda loss: loss.div_(4)]
)
def test_parts_of_an_accumulated_loss_are_shown_as_their_mean(part: Callable[[torch.Tensor], torch.Tensor]) -> None:
    shown = ShownLoss()
    assert step(shown, *(part(loss_of(value)) for value in (1, 2, 3, 6))) == pytest.approx(3.0)
    assert step(shown, part(loss_of(5)), part(loss_of(7))) == pytest.approx(6.0), "the last few of an epoch"


def test_losses_that_are_no_parts_are_shown_as_their_mean() -> None:
    shown = ShownLoss()
    assert step(shown, loss_of(4)) == 4.0
    assert step(shown, loss_of(4) / 8) == 0.5, "a mean by hand"
    assert step(shown, loss_of(4), loss_of(2)) == 3.0
    assert step(shown, loss_of(4) / 8, loss_of(2) / 8) == pytest.approx(0.375)


def test_the_scale_of_a_gradient_scaler_is_undone(scaler: GradScaler) -> None:
    shown = ShownLoss()
    assert step(shown, scaler.scale(loss_of(3))) == 3.0
    assert step(shown, scaler.scale(loss_of(3) / 2), scaler.scale(loss_of(5) / 2)) == 4.0
    assert step(shown, GradScaler("cpu", enabled=False).scale(loss_of(3))) == 3.0


def test_nothing_is_known_of_a_step_without_a_backward_on_a_single_number() -> None:
    shown = ShownLoss()
    assert (step(shown), shown.last) == (None, None)
    shown.before_backward([loss_of(1), loss_of(2)])
    shown.after_backward()
    assert step(shown) is None


def test_a_backward_that_gave_the_model_nothing_and_earlier_closures_do_not_count() -> None:
    shown = ShownLoss()
    shown.before_backward(loss_of(9))
    assert step(shown, loss_of(1)) == 1.0
    shown.before_backward(loss_of(9))
    shown.after_backward()
    shown.forget()
    shown.before_backward(loss_of(2))
    shown.after_backward()
    assert (shown.last, shown.on_step()) == (2.0, 2.0)


TRAIN = """
for group in optimizer.param_groups:
    group["lr"] = 0.0
alike = x[:1].repeat(24, 1)
scaler = torch.amp.GradScaler("cpu", enabled={scales})
for i, inputs in enumerate(worker.share(DataLoader(alike, batch_size=2))):
    loss = model(inputs).square().mean()
    SEEN.append(loss.item())
    scaler.scale(loss / {num_parts}).backward()
    if i % {num_parts} == {num_parts} - 1:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("num_parts", [1, 3])
def test_a_run_shows_the_loss_that_the_script_computed(tmp_path: Path, num_parts: int, scales: bool) -> None:
    text = TRAIN.format(num_parts=num_parts, scales=scales)
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 2)
    assert outcome.facts.final_loss == pytest.approx(SEEN[0], rel=1e-6)


ALONE = """
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(60, 4), torch.randn(60, 1))
model, critic = nn.Linear(4, 1), nn.Linear(1, 1)
optimizer = {optimizer}
worker = weft.join(model, optimizer)
other = torch.optim.SGD(critic.parameters(), lr=0.1)
losses = []

def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    return loss

for inputs, wanted in worker.share(DataLoader(data, batch_size=2)):
    (1000 * critic(torch.ones(1))).sum().backward()  # of a model that has not joined
    {step}
    losses.append(float(loss.detach()))
print(sum(losses[-20:]) / 20)
"""


@pytest.mark.parametrize(
    ("optimizer", "step"),
    [
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "loss = closure(); optimizer.step()"),
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "loss = optimizer.step(closure)"),
    ],
)
def test_the_loss_of_a_worker_that_is_alone_is_shown_as_its_script_computes_it(
    optimizer: str, step: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(ALONE.format(optimizer=optimizer, step=step))
    heard = Heard()
    outcome = real(tmp_path / "train.py", 1, heard=heard).to_json()
    (printed,) = (float(text) for _, text, _ in heard.lines)
    assert outcome["final"]["loss"] == pytest.approx(printed, rel=1e-6)
    assert outcome["workers"] == 1


def test_of_an_optimizer_that_calls_its_closure_again_and_again_the_last_loss_is_shown(tmp_path: Path) -> None:
    step = "optimizer.step(closure); loss = nn.functional.mse_loss(model(inputs), wanted)"
    optimizer = "torch.optim.LBFGS(model.parameters(), max_iter=3)"
    (tmp_path / "train.py").write_text(ALONE.format(optimizer=optimizer, step=step))
    outcome = real(tmp_path / "train.py", 1).to_json()
    assert outcome["final"]["loss"] < 10
