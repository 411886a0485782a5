"""Several optimizers and models, and steps without new samples: the same maths as in a plain loop."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._dynamo  # here, once: every forked worker would take seconds for it
from safetensors.torch import load_file
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated
from torch import nn

from weft.adapters.torch.replica import TorchReplica
from weft.adapters.torch.worker import TorchWorker
from weft.core.errors import IllegalCall, WeftError
from weft.core.script_state import FILLING_FIRST, ScriptState

HEAD = """
import sys
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder, batch_size = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x, y = torch.randn(48, 3), torch.randn(48, 2)
loader = DataLoader(TensorDataset(x, y), batch_size=batch_size)
first, second = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), nn.Linear(3, 2)
models = nn.ModuleList([first, second])
opt_a = torch.optim.Adam(first.parameters(), lr=0.05, betas=(0.5, 0.9))
opt_b = torch.optim.SGD(second.parameters(), lr=0.05, momentum=0.5)
"""
TAIL = """
if folder != "-":
    worker.save(f"{folder}/model.safetensors")
"""
JOIN_EACH = """
worker = weft.join(first, opt_a)
weft.join(second, opt_b)
"""
JOIN_BOTH = """
worker = weft.join(models, [opt_a, opt_b])
"""
GAN = """
for epoch in worker.epochs(2):
    for inputs, real in worker.share(loader):
        opt_a.zero_grad()
        fake = second(inputs).detach()
        (first(real).square().mean() + (first(fake) - 1).square().mean()).backward()
        opt_a.step()
        opt_b.zero_grad()
        first(second(inputs)).square().mean().backward()
        opt_b.step()
"""
ONE_BACKWARD = """
for epoch in worker.epochs(2):
    for inputs, targets in worker.share(loader):
        opt_a.zero_grad()
        opt_b.zero_grad()
        first(second(inputs) + targets).square().mean().backward()
        opt_a.step()
        opt_b.step()
"""
PENALTY = """
worker = weft.join(models, [opt_a, opt_b])
for epoch in worker.epochs(2):
    for inputs, targets in worker.share(loader):
        opt_b.zero_grad()
        (second(inputs) - targets).square().mean().backward()
        opt_b.step()
        opt_b.zero_grad()
        (0.1 * second.weight.square().sum()).backward()
        opt_b.step()
"""
SCRIPTS = {
    "gan": JOIN_EACH + GAN,
    "gan in one join": JOIN_BOTH + GAN,
    "two steps after one backward": JOIN_BOTH + ONE_BACKWARD,
    "a penalty": PENALTY,
}
BATCH = 4


@pytest.fixture(autouse=True)
def _the_default_type_is_put_back() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)


def written(folder: Path, *pieces: str) -> Path:
    path = folder / "train.py"
    path.write_text("".join(pieces))
    return path


def plain(path: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """What the script ends with alone, on batches as large as those of all workers together."""
    monkeypatch.setattr(sys, "argv", [str(path), "-", str(BATCH * num_workers)])
    with torch.random.fork_rng():
        state: dict[str, torch.Tensor] = runpy.run_path(str(path), run_name="__main__")["models"].state_dict()
    return state


def is_close(path: Path, expected: dict[str, torch.Tensor]) -> bool:
    saved = load_file(path)
    assert saved.keys() == expected.keys()
    return all(torch.allclose(saved[name], value, rtol=0, atol=1e-9) for name, value in expected.items())


@pytest.mark.parametrize("num_workers", [2, 4])
@pytest.mark.parametrize("strategy", ["allreduce", "ps", "ps(servers=2)"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_synchronous_methods_do_what_a_plain_loop_does_on_the_union_of_the_batches(
    script: str, strategy: str, num_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, HEAD, SCRIPTS[script], TAIL)
    simulated(path, num_workers, strategy, str(tmp_path), str(BATCH))
    assert is_close(tmp_path / "model.safetensors", plain(path, num_workers, monkeypatch))


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("gan", {}),
        ("gan", {"transport": "tcp"}),
        ("gan", {"hosts": (0, 1)}),
        ("gan in one join", {"strategy": "ps"}),
        ("two steps after one backward", {}),
        ("a penalty", {}),
    ],
)
def test_real_workers_do_so_too(
    script: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, HEAD, SCRIPTS[script], TAIL)
    real(path, 2, options.pop("strategy", "allreduce"), tmp_path, BATCH, **options)
    assert is_close(tmp_path / "model.safetensors", plain(path, 2, monkeypatch))


@pytest.mark.parametrize(
    "strategy", ["ssp", "gossip", "async_gossip", "local_sgd", "neighbours", "downpour", "push_sum"]
)
@pytest.mark.parametrize("script", SCRIPTS)
def test_other_methods_move_every_model(
    script: str, strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plain(written(tmp_path, HEAD, SCRIPTS[script].replace("epochs(2)", "epochs(0)")), 4, monkeypatch)
    simulated(written(tmp_path, HEAD, SCRIPTS[script], TAIL), 4, strategy, str(tmp_path), str(BATCH))
    after = load_file(tmp_path / "model.safetensors")
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved == [name for name in before if script != "a penalty" or name.startswith("1.")]


def refusal(path: Path, strategy: str, num_workers: int = 2, **options: Any) -> str:
    with pytest.raises(WeftError) as refused:
        simulated(path, num_workers, strategy, "-", str(BATCH), **options)
    return str(refused.value)


@pytest.mark.parametrize("strategy", ["allreduce", "ps"])
def test_workers_of_which_only_some_count_samples_are_refused(strategy: str, tmp_path: Path) -> None:
    penalty = "        (0.1 * second"
    loop = PENALTY.replace(penalty, "        if worker.rank:\n            worker.count(3)\n" + penalty)
    assert refusal(written(tmp_path, HEAD, loop), strategy).startswith(
        "some workers counted new samples for this step and others did not"
    )


def test_samples_that_are_counted_after_backward_are_refused(tmp_path: Path) -> None:
    loop = PENALTY.replace(".sum()).backward()", ".sum()).backward()\n        worker.count(3)")
    assert refusal(written(tmp_path, HEAD, loop), "allreduce") == (
        "3 samples were counted after backward, whose gradient then weighed without them.\n"
        "  Call worker.count(...) before backward."
    )


@pytest.mark.parametrize("strategy", ["quorum", "sandblaster"])
def test_methods_that_add_up_workers_at_different_steps_refuse_several_optimizers(
    strategy: str, tmp_path: Path
) -> None:
    assert refusal(written(tmp_path, HEAD, JOIN_EACH + GAN), strategy) == (
        f"2 optimizers joined, but under '{strategy}' gradients are added up of workers that are at different steps, "
        "so those of one optimizer would be mixed with another's.\n"
        "  Use allreduce, ssp or gossip, or one optimizer with several groups."
    )


def test_codecs_that_keep_what_they_leave_out_refuse_several_optimizers(tmp_path: Path) -> None:
    refused = refusal(written(tmp_path, HEAD, JOIN_EACH + GAN), "allreduce", compress="topk(0.1)")
    assert refused == (
        "'topk(fraction=0.1)' says later what it leaves out of a gradient, but 2 optimizers joined, and a step of one "
        "would say what is another's.\n  Use 'fp16', 'qsgd' or another codec that leaves nothing out, or one "
        "optimizer with several groups."
    )


def test_all_models_join_before_training_and_the_strategy_comes_with_the_first(tmp_path: Path) -> None:
    late = JOIN_EACH.replace("weft.join(second, opt_b)\n", "") + GAN.replace(
        "        opt_b.zero_grad()\n", "        weft.join(second, opt_b)\n        opt_b.zero_grad()\n"
    )
    assert refusal(written(tmp_path, HEAD, late), "allreduce") == (
        "weft.join was called with another model after training had begun.\n"
        "  Let all models join before the training loop."
    )
    named = JOIN_EACH.replace("opt_b)", "opt_b, strategy='ssp')")
    assert refusal(written(tmp_path, HEAD, named + GAN), "allreduce") == (
        "weft.join was given a strategy or a codec together with a second model.\n"
        "  Name them with the first model; one strategy trains all."
    )


def test_workers_join_with_the_same_number_of_models(tmp_path: Path) -> None:
    some = JOIN_EACH.replace("weft.join(second, opt_b)", "if worker.rank == 0:\n    weft.join(second, opt_b)")
    assert refusal(written(tmp_path, HEAD, some + GAN), "allreduce") == (
        "worker 1 joined with fewer models than worker 0.\n  Let every worker join with the same models."
    )


SHARED = """
part = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).requires_grad_(False)
first, second = nn.Sequential(part, nn.Linear(3, 1)), nn.Sequential(part, nn.Linear(3, 2))
opt_a, opt_b = (torch.optim.SGD(model.parameters(), lr=0.05) for model in (first, second))
"""
SHARED_LOOP = """
for epoch in worker.epochs(2):
    for inputs, targets in worker.share(loader):
        for model, optimizer in ((first, opt_a), (second, opt_b)):
            optimizer.zero_grad()
            (model(inputs) - targets[:, : model[1].out_features]).square().mean().backward()
            optimizer.step()
    worker.report(loss=lambda: first.eval()(x).sum().item())
    first.train()
"""


@pytest.mark.parametrize("start", [simulated, real])
@pytest.mark.parametrize("strategy", ["allreduce", "gossip", "ps"])
def test_a_frozen_part_with_means_may_be_shared_by_models_that_join_one_by_one(
    start: Any, strategy: str, tmp_path: Path
) -> None:
    start(written(tmp_path, HEAD, SHARED, JOIN_EACH, SHARED_LOOP, TAIL), 2, strategy, str(tmp_path), str(BATCH))
    saved = load_file(tmp_path / "model.safetensors")
    means = ("0.0.1.running_mean", "1.0.1.running_mean")
    assert saved[means[0]].any()
    assert torch.equal(saved[means[0]], saved[means[1]])


def test_the_means_of_a_shared_part_lie_in_one_bucket_once() -> None:
    part = nn.BatchNorm1d(2).requires_grad_(False)
    models = [nn.Sequential(part, nn.Linear(2, 1)) for _ in range(2)]
    replica = TorchReplica(models[0], torch.optim.SGD(models[0].parameters(), lr=0.1))
    replica.add(models[1], torch.optim.SGD(models[1].parameters(), lr=0.1))
    replica.settle()
    assert replica.names(len(replica.buckets) - 1) == ["0.0.running_mean", "0.0.running_var"]


def test_what_is_no_model_or_no_optimizer_is_refused(tmp_path: Path) -> None:
    wrong = JOIN_BOTH.replace("opt_b]", "first]")
    assert refusal(written(tmp_path, HEAD, wrong), "allreduce") == (
        "weft.join was given a ModuleList and a Sequential, but wants a torch model and its optimizer.\n"
        "  Use weft.join(model, optimizer)."
    )


def test_one_of_several_models_is_saved_alone_by_its_own_names(tmp_path: Path) -> None:
    save = "worker.save(f'{folder}/second.safetensors', of=second)\n"
    simulated(written(tmp_path, HEAD, JOIN_EACH, GAN, save), 2, "gossip", str(tmp_path), str(BATCH))
    assert sorted(load_file(tmp_path / "second.safetensors")) == ["bias", "weight"]
    stranger = save.replace("of=second", "of=nn.Linear(1, 1)")
    with pytest.raises(WeftError) as refused:
        simulated(written(tmp_path, HEAD, JOIN_EACH, GAN, stranger), 2, "gossip", str(tmp_path), str(BATCH))
    assert str(refused.value) == (
        "save(of=...) was given a Linear that has not joined.\n  Give it one of the models that weft.join was given."
    )


def test_the_choice_of_one_model_is_for_one_save(tmp_path: Path) -> None:
    save = "worker.save(f'{folder}/x.safetensors', of=second)\nworker.save(f'{folder}/x.safetensors')\n"
    simulated(written(tmp_path, HEAD, JOIN_EACH, GAN, save), 2, "gossip", str(tmp_path), str(BATCH))
    assert {name[0] for name in load_file(tmp_path / "x.safetensors")} == {"0", "1"}


@pytest.mark.parametrize("start", [simulated, real])
def test_the_choice_of_one_model_is_not_that_of_an_earlier_save_that_is_written_later(
    start: Any, tmp_path: Path
) -> None:
    at_the_end = "if worker.rank == 0:\n    worker.save(f'{folder}/x.0.safetensors')\n"
    at_once = "worker.save(f'{folder}/x.safetensors', 'mine', of=second)\n"
    start(written(tmp_path, HEAD, JOIN_EACH, GAN, at_the_end, at_once), 2, "gossip", str(tmp_path), str(BATCH))
    assert {name[0] for name in load_file(tmp_path / "x.0.safetensors")} == {"0", "1"}
    assert sorted(load_file(tmp_path / "x.1.safetensors")) == ["bias", "weight"]


@pytest.mark.parametrize("start", [simulated, real])
def test_workers_that_step_different_optimizers_are_refused(start: Any, tmp_path: Path) -> None:
    loop = ONE_BACKWARD.replace(
        "        opt_a.step()\n        opt_b.step()\n",
        "        for each in [opt_a, opt_b] if worker.rank else [opt_b, opt_a]:\n            each.step()\n",
    )
    path = written(tmp_path, HEAD, JOIN_BOTH, loop)
    with pytest.raises(WeftError, match="workers have made their last step with different optimizers"):
        start(path, 2, "allreduce", "-", str(BATCH))


def test_a_bad_gradient_of_one_optimizer_does_not_keep_another_from_stepping(tmp_path: Path) -> None:
    spoilt = "(first(real).square().mean() * (float('nan') if worker.steps == 2 else 1.0) +"
    tell = "        before = second.weight.detach().clone()\n        opt_b.step()\n"
    tell += "        assert not torch.equal(before, second.weight)\n"
    loop = GAN.replace("(first(real).square().mean() +", spoilt).replace("        opt_b.step()\n", tell)
    heard, script = Heard(), written(tmp_path, HEAD, JOIN_EACH, loop)
    real(script, 2, "allreduce", "-", BATCH, heard=heard)
    assert any("leaves out its gradient of step 2" in line for line in heard.told)
    assert simulated(script, 2, "allreduce", "-", str(BATCH)).facts.left_out == [2, 2]


def test_a_model_that_joins_in_a_hook_of_the_first_backward_is_refused_before_anything_is_changed() -> None:
    worker: Any = object.__new__(TorchWorker)
    worker._num_gradients, worker._plain = 0, None
    worker._seat = SimpleNamespace(script=ScriptState(FILLING_FIRST))
    with pytest.raises(IllegalCall):
        worker.add(nn.Linear(1, 1), [])  # it has no replica that could be changed, and its seat cannot join
