"""Torch scripts on real workers that share memory: the same bits on all workers, and in the simulator."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
from safetensors.torch import load_file
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated

from weft.core.errors import ConfigError

NUM_WORKERS = 3

HEAD = """
import sys
from copy import deepcopy
import numpy as np
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder = sys.argv[1]
torch.manual_seed(0)
x, y = torch.randn(42, 4), torch.randint(0, 3, (42,))
loader = DataLoader(TensorDataset(x, y), batch_size=2)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
JOIN = """
worker = weft.join(model, optimizer)
seen = {}
"""
LOOP = """
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
TAIL = """
if folder != "-":
    torch.save({"model": model.state_dict(), "seen": seen}, f"{folder}/{worker.rank}.pt")
"""


def written(folder: Path, *pieces: str) -> Path:
    path = folder / "train.py"
    path.write_text("".join(pieces))
    return path


def trained(folder: Path, *pieces: str, strategy: str = "allreduce", **options: Any) -> list[dict[str, Any]]:
    """What each worker had at the end: its model, and what it saw."""
    real(written(folder, *pieces, TAIL), NUM_WORKERS, strategy, folder, **options)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(NUM_WORKERS)]


def check_same_bits(folder: Path, *pieces: str) -> list[dict[str, Any]]:
    """All real workers end with the same bits, which are those of the simulator."""
    ended = trained(folder, *pieces)
    replicas = simulated(folder / "train.py", NUM_WORKERS, "allreduce", "-").replicas
    first = ended[0]["model"]
    for other in [each["model"] for each in ended] + [replica.model.state_dict() for replica in replicas]:
        assert all(torch.equal(value, other[name]) for name, value in first.items())
    return ended


def between(loop: str, what: str) -> str:
    """The loop with this between backward and step."""
    return loop.replace(
        "        optimizer.step()",
        "".join(f"        {line}\n" for line in what.splitlines()) + "        optimizer.step()",
    )


CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)"
HALVE = "for p in model.parameters():\n    p.grad.data.mul_(0.5)"


@pytest.mark.parametrize("edit", [CLIP, HALVE], ids=["clip", "data"])
def test_edits_of_the_gradient_count_once_and_stay_each_workers_own(edit: str, tmp_path: Path) -> None:
    check_same_bits(tmp_path, HEAD, JOIN, between(LOOP, edit))


def test_halving_every_gradient_is_halving_the_learning_rate(tmp_path: Path) -> None:
    halved = trained(tmp_path, HEAD, JOIN, between(LOOP, HALVE))[0]["model"]
    expected = trained(tmp_path, HEAD.replace("lr=0.1", "lr=0.05"), JOIN, LOOP)[0]["model"]
    for name, value in halved.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-6)


def test_an_edit_of_one_worker_alone_does_not_reach_the_gradient_of_another(tmp_path: Path) -> None:
    bias = "model[0].bias.grad"
    watch = f"if worker.rank == 1:\n    {bias}.mul_(0.0)\nelse:\n    seen[worker.steps] = {bias}.clone()"
    ended = trained(tmp_path, HEAD, JOIN, between(LOOP, watch))
    for step, gradient in ended[0]["seen"].items():
        assert gradient.abs().sum() > 0
        assert torch.equal(gradient, ended[2]["seen"][step])


def test_zero_grad_may_keep_the_gradients_in_place(tmp_path: Path) -> None:
    kept = check_same_bits(tmp_path, HEAD, JOIN, LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)"))
    expected = trained(tmp_path, HEAD, JOIN, LOOP)
    assert all(torch.equal(value, expected[0]["model"][name]) for name, value in kept[0]["model"].items())


UNUSED = """
class Fork(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.sometimes, self.never = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)
    def forward(self, inputs, odd):
        return self.always(inputs) + (self.sometimes(inputs) if odd else 0.0)
model = Fork()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
before = [p.detach().clone() for p in model.never.parameters()]
"""


def test_parameters_that_some_workers_do_not_use_in_some_steps_are_updated_alike(tmp_path: Path) -> None:
    loop = LOOP.replace("model(inputs)", "model(inputs, (worker.steps + worker.rank) % 3 == 0)")
    told = "\nseen['before'] = before\n"
    ended = check_same_bits(tmp_path, HEAD, UNUSED, JOIN, loop, told)
    for name, before in zip(("weight", "bias"), ended[0]["seen"]["before"], strict=True):
        assert torch.equal(ended[0]["model"][f"never.{name}"], before)


TIED = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.frozen.requires_grad_(False)
        self.b.weight = self.a.weight
    def forward(self, inputs):
        return self.out(torch.tanh(self.b(torch.tanh(self.a(self.frozen(inputs))))))
model = Tied()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
before = model.frozen.weight.clone()
"""


def test_frozen_parameters_stay_and_tied_ones_stay_tied(tmp_path: Path) -> None:
    told = (
        "\nseen['frozen'] = torch.equal(before, model.frozen.weight)\nseen['tied'] = model.b.weight is model.a.weight\n"
    )
    ended = check_same_bits(tmp_path, HEAD, TIED, JOIN, LOOP, told)
    assert all(each["seen"] == {"frozen": True, "tied": True} for each in ended)


def test_the_buffers_of_batch_norm_are_the_same_on_all_workers_and_in_the_simulator(tmp_path: Path) -> None:
    head = HEAD.replace("nn.Tanh(), ", "nn.BatchNorm1d(8), nn.Tanh(), ")
    ended = check_same_bits(tmp_path, head, JOIN, LOOP)
    assert ended[0]["model"]["1.num_batches_tracked"] == 14
    assert ended[0]["model"]["1.running_mean"].abs().sum() > 0


def test_dropout_differs_between_workers(tmp_path: Path) -> None:
    told = "\nseen['mask'] = nn.functional.dropout(torch.ones(64))\n"
    masks = [each["seen"]["mask"] for each in trained(tmp_path, HEAD, JOIN, LOOP, told)]
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_a_compiled_model_trains_to_the_same_bits(tmp_path: Path) -> None:
    head = HEAD.replace("optimizer =", 'forward = torch.compile(model, backend="eager")\noptimizer =')
    compiled = trained(tmp_path, head, JOIN, LOOP.replace("model(inputs)", "forward(inputs)"))
    expected = trained(tmp_path, HEAD, JOIN, LOOP)
    assert all(torch.equal(value, expected[0]["model"][name]) for name, value in compiled[0]["model"].items())


SCALED = """
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_autocast_and_a_gradient_scaler_train_alike_on_all_workers(tmp_path: Path) -> None:
    check_same_bits(tmp_path, HEAD, JOIN, SCALED)


GROUPS = """
optimizer = torch.optim.AdamW([
    {"params": model[0].parameters(), "lr": 0.05}, {"params": model[2].parameters(), "weight_decay": 0.2},
], lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
"""


def test_several_groups_and_a_scheduler_are_respected(tmp_path: Path) -> None:
    stepped = LOOP + "        scheduler.step()\n"
    ended = check_same_bits(tmp_path, HEAD, GROUPS, JOIN, stepped)
    constant = trained(tmp_path, HEAD, GROUPS, JOIN, LOOP)
    assert not torch.equal(ended[0]["model"]["0.weight"], constant[0]["model"]["0.weight"])


LBFGS = """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3, line_search_fn="strong_wolfe")
worker = weft.join(model, optimizer)
seen = {}
for inputs, labels in worker.share(loader):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        return loss
    optimizer.step(closure)
"""


def test_an_optimizer_with_closures_is_equal_on_all_workers(tmp_path: Path) -> None:
    check_same_bits(tmp_path, HEAD, LBFGS)


def test_an_optimizer_with_closures_is_refused_by_a_strategy_that_cannot_share_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        trained(tmp_path, HEAD, LBFGS, strategy="gossip")
    assert str(refused.value) == (
        "this optimizer computes gradients again and again in its step, which 'gossip' cannot share.\n"
        "  Use the strategy allreduce or ensemble, or an optimizer such as SGD or Adam."
    )


ACCUMULATES = """
for epoch in worker.epochs(1):
    batches = list(worker.share(loader))
    for first, second in zip(batches[::2], batches[1::2]):
        optimizer.zero_grad()
        worker.count(4)
        with worker.accumulate():
            (nn.functional.cross_entropy(model(first[0]), first[1]) / 2).backward()
        (nn.functional.cross_entropy(model(second[0]), second[1]) / 2).backward()
        optimizer.step()
"""


def test_accumulated_gradients_are_shared_once(tmp_path: Path) -> None:
    check_same_bits(tmp_path, HEAD, JOIN, ACCUMULATES)


STATE = """
for epoch in worker.epochs(2):
    for inputs, labels in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if worker.steps == 5:
            state = deepcopy(optimizer.state_dict())
            seen["state"] = {k: v["momentum_buffer"].clone() for k, v in state["state"].items()}
        if worker.steps == 7 and LOADS:
            optimizer.load_state_dict(state)
"""


def test_the_state_of_the_optimizer_is_whole_on_every_worker_in_the_midst_of_training(tmp_path: Path) -> None:
    ended = check_same_bits(tmp_path, HEAD, JOIN, STATE.replace("LOADS", "False"))
    for number in range(4):
        values = [each["seen"]["state"][number] for each in ended]
        assert values[0].abs().min() > 0
        assert all(torch.equal(value, values[0]) for value in values)


def test_a_state_that_was_loaded_is_what_the_next_step_goes_on_from(tmp_path: Path) -> None:
    loaded = check_same_bits(tmp_path, HEAD, JOIN, STATE.replace("LOADS", "True"))
    kept = trained(tmp_path, HEAD, JOIN, STATE.replace("LOADS", "False"))
    assert not torch.equal(loaded[0]["model"]["0.weight"], kept[0]["model"]["0.weight"])


@pytest.mark.parametrize("strategy", ["allreduce", "gossip"])
def test_what_is_saved_is_the_result(strategy: str, tmp_path: Path) -> None:
    ended = trained(tmp_path, HEAD, JOIN, LOOP, f"worker.save('{tmp_path}/saved.safetensors')\n", strategy=strategy)
    saved = load_file(tmp_path / "saved.safetensors")
    assert saved.keys() == ended[0]["model"].keys()
    for name, value in saved.items():
        mean = sum(each["model"][name] for each in ended) / NUM_WORKERS
        expected = ended[0]["model"][name] if strategy == "allreduce" else mean
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)


SAVES = """
for epoch in worker.epochs(1):
    worker.report(loss=abs(worker.rank - 1))
for model_name in ("result", "mean", "best", "mine", "ensemble"):
    worker.save(f"{folder}/{model_name}.safetensors", model=model_name)
"""


@pytest.mark.parametrize(
    ("strategy", "result"), [("allreduce", "mean"), ("gossip", "mean"), ("ps", None), ("ensemble", "ensemble")]
)
@pytest.mark.parametrize("driver", ["real", "simulated"])
def test_every_word_for_a_model_saves_what_it_says(
    driver: str, strategy: str, result: str | None, tmp_path: Path
) -> None:
    if driver == "real":
        trained(tmp_path, HEAD, JOIN, LOOP, SAVES, strategy=strategy)
    else:
        simulated(written(tmp_path, HEAD, JOIN, LOOP, SAVES), NUM_WORKERS, strategy, str(tmp_path))
    mine = [load_file(tmp_path / f"mine.{rank}.safetensors") for rank in range(NUM_WORKERS)]
    saved = {name: load_file(tmp_path / f"{name}.safetensors") for name in ("result", "mean", "best", "ensemble")}
    expected: dict[str, Any] = {
        "mean": {name: sum(each[name] for each in mine) / NUM_WORKERS for name in mine[0]},
        "best": mine[1],
        "ensemble": {f"member{rank}.{name}": value for rank, each in enumerate(mine) for name, value in each.items()},
    }
    expected["result"] = mine[0] if result is None else expected[result]
    for word, tensors in expected.items():
        assert saved[word].keys() == tensors.keys()
        for name, value in tensors.items():
            torch.testing.assert_close(saved[word][name], value, rtol=1e-6, atol=1e-7)
    assert not (tmp_path / "mine.safetensors").exists()


ONCE = """
def load(size):
    with open(f"{folder}/loads", "a") as file:
        file.write("loaded ")
    return {"x": torch.arange(size), "more": [np.ones(3), (torch.zeros(2), "text", 1.5)]}
data = weft.once(load, 5)
worker = weft.join(model, optimizer)
again = weft.once(load, 6)
data["x"][0] = worker.rank + 10
data["more"][0][1] = worker.rank
seen = {"x": data["x"], "first": float(data["more"][0][1]), "again": again["x"], "text": data["more"][1][1]}
"""


def test_what_is_loaded_once_is_there_on_all_workers_and_writes_stay_their_own(tmp_path: Path) -> None:
    ended = trained(tmp_path, HEAD, ONCE, LOOP)
    assert (tmp_path / "loads").read_text() == "loaded loaded "
    for rank, each in enumerate(ended):
        assert each["seen"]["x"].tolist() == [rank + 10, 1, 2, 3, 4]
        assert each["seen"]["first"] == rank
        assert each["seen"]["again"].tolist() == [0, 1, 2, 3, 4, 5]
        assert each["seen"]["text"] == "text"


def test_a_loader_with_processes_of_its_own_gives_the_same_bits(tmp_path: Path) -> None:
    ended = trained(tmp_path, HEAD.replace("batch_size=2)", "batch_size=2, num_workers=1)"), JOIN, LOOP)
    expected = trained(tmp_path, HEAD, JOIN, LOOP)
    assert all(torch.equal(value, expected[0]["model"][name]) for name, value in ended[0]["model"].items())


def test_numbers_are_averaged_and_callables_run_once(tmp_path: Path) -> None:
    heard = Heard()
    score = """
def score():
    with open(f"{folder}/scores", "a") as file:
        file.write("scored ")
    return 7.0
"""
    loop = LOOP + "    worker.report(rank=worker.rank, loss=loss, score=score)\n"
    trained(tmp_path, HEAD, score, JOIN, loop, heard=heard)
    assert [(epoch, numbers["rank"], numbers["score"]) for epoch, numbers in heard.reports] == [(0, 1, 7), (1, 1, 7)]
    assert (tmp_path / "scores").read_text() == "scored scored "


def test_a_global_batch_is_divided_over_the_workers(tmp_path: Path) -> None:
    told = LOOP + "        seen[worker.steps] = len(inputs)\n"
    sizes = [each["seen"] for each in trained(tmp_path, HEAD, JOIN, told, global_batch=7)]
    assert [sorted(each[step] for each in sizes) for step in (1, 2)] == [[2, 2, 3]] * 2
    assert len(sizes[0]) == 2 * 42 // 7


def test_a_slow_worker_computes_the_same_and_holds_up_the_others(tmp_path: Path) -> None:
    busy = LOOP.replace(
        "        optimizer.zero_grad()", "        for _ in range(40): torch.randn(4000)\n        optimizer.zero_grad()"
    )
    real(written(tmp_path, HEAD, JOIN, busy, TAIL), NUM_WORKERS, "allreduce", tmp_path)
    expected = torch.load(tmp_path / "1.pt", weights_only=True)["model"]
    outcome = real(tmp_path / "train.py", NUM_WORKERS, "allreduce", tmp_path, slow={0: 5.0})
    slowed = torch.load(tmp_path / "1.pt", weights_only=True)["model"]
    assert all(torch.equal(value, expected[name]) for name, value in slowed.items())
    slow, fast, _ = outcome.workers
    assert slow.waiting_s < 0.5 * fast.waiting_s
