"""Traps of real scripts under torch: each of these once trained wrongly, leaked or crashed."""

import gc
from pathlib import Path
from weakref import ref

import pytest
import torch
from scripts import SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write

from weft.adapters.torch.replica import TorchReplica
from weft.core.errors import ConfigError


def test_a_finished_run_leaves_no_replica_behind(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN), 3, "allreduce")
    replicas = [ref(replica) for replica in outcome.replicas]
    assert all(isinstance(replica(), TorchReplica) for replica in replicas)
    outcome.replicas.clear()
    del outcome
    gc.collect()
    assert [replica() for replica in replicas] == [None] * 3


def test_sparse_gradients_are_refused(tmp_path: Path) -> None:
    head = TORCH.replace("nn.Sequential(", "nn.Sequential(nn.Embedding(5, 4, sparse=True), ")
    train = TORCH_TRAIN.replace("model(inputs)", "model(torch.zeros(len(inputs), dtype=torch.long))")
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, head, TORCH_JOIN, train), 2, "allreduce")
    assert str(refused.value) == (
        "a parameter of shape (5, 4) has a sparse gradient, which is not shared.\n  Use sparse=False in its layer."
    )


def test_parameters_unfrozen_after_joining_are_refused(tmp_path: Path) -> None:
    head = TORCH + "model[0].weight.requires_grad = False\n"
    thaw = TORCH_JOIN + "model[0].weight.requires_grad = True\n"
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, head, thaw, TORCH_TRAIN), 2, "allreduce")
    assert str(refused.value) == (
        "a parameter of shape (8, 4) has a gradient, but was frozen at weft.join.\n  Set requires_grad before joining."
    )


def test_frozen_parameters_are_those_of_worker_0_and_stay(tmp_path: Path) -> None:
    head = TORCH.replace("torch.manual_seed(0)", "import random; torch.manual_seed(random.getrandbits(32))")
    head += "model[0].weight.requires_grad = False\nSEEN.append(model[0].weight.clone())\n"
    outcome = simulated(write(tmp_path, head, TORCH_JOIN, TORCH_TRAIN), 2, "gossip")
    weights = [replica.model[0].weight for replica in outcome.replicas]
    assert torch.equal(weights[0], SEEN[0])
    assert torch.equal(weights[1], SEEN[0])


def test_gradients_that_the_script_fills_itself_are_reduced_too(tmp_path: Path) -> None:
    by_hand = TORCH_TRAIN.replace(
        "loss.backward()",
        "for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))): p.grad = g",
    )
    expected = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN), 3, "allreduce")
    got = simulated(write(tmp_path, TORCH, TORCH_JOIN, by_hand), 3, "allreduce")
    assert got.consensus == 0.0
    assert all((a == b).all() for a, b in zip(got.arrays, expected.arrays, strict=True))


def test_what_an_optimizer_keeps_in_its_groups_stays(tmp_path: Path) -> None:
    counting = """
    class Counting(torch.optim.SGD):
        def step(self, closure=None):
            self.param_groups[0]["k"] = self.param_groups[0].get("k", 0) + 1
            return super().step(closure)

    optimizer = Counting(model.parameters(), lr=0.1)
    """
    outcome = simulated(write(tmp_path, TORCH, counting, TORCH_JOIN, TORCH_TRAIN), 2, "allreduce")
    assert outcome.replicas[0].optimizer.param_groups[0]["k"] == outcome.facts.steps[0] > 1


def test_a_message_carries_the_learning_rate_as_it_was(tmp_path: Path) -> None:
    head = TORCH.replace("lr=0.1", "lr=torch.tensor(0.1)")
    outcome = simulated(write(tmp_path, head, TORCH_JOIN, TORCH_TRAIN), 1, "allreduce")
    replica = outcome.replicas[0]
    then = replica.hyper()[0]["lr"]
    replica.optimizer.param_groups[0]["lr"].fill_(7.0)
    assert float(then) == pytest.approx(0.1)


@pytest.mark.parametrize("collective", [None, "ring", "tree", "butterfly", "halving_doubling"])
def test_several_backwards_in_a_step_and_skipped_steps_are_reduced_in_order(
    tmp_path: Path, collective: str | None
) -> None:
    skipping = TORCH_TRAIN.replace(
        "optimizer.step()", "\n        if worker.rank == 0: continue\n        optimizer.step()"
    )
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, skipping), 4, "allreduce", collective=collective)
    assert outcome.facts.steps == [0, 4, 4, 4], "worker 0 took part in every reduction, but never stepped"
    first, second, third = (replica.array("params", 0) for replica in outcome.replicas[1:])
    assert (first == second).all()
    assert (first == third).all()


def test_a_model_of_an_imported_module_is_refused_because_all_workers_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared_model.py").write_text(TORCH)
    monkeypatch.syspath_prepend(tmp_path)
    script = write(tmp_path, "import weft\nfrom shared_model import *\n", TORCH_JOIN, TORCH_TRAIN)
    with pytest.raises(ConfigError) as refused:
        simulated(script, 2, "allreduce")
    assert str(refused.value) == (
        "worker 1 joined with the very objects of another worker.\n"
        "  Build the model in the script itself: modules that it imports are shared by all simulated workers."
    )


def test_the_default_watcher_shows_what_worker_0_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated(write(tmp_path, TORCH, "print('hello from', __name__)\n", TORCH_JOIN, TORCH_TRAIN), 2, "allreduce")
    assert capsys.readouterr().out == "hello from __main__\n"


HEADS = """
heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 3)])
model = nn.ModuleDict({"body": nn.Linear(4, 8), "heads": heads})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
"""
HEADS_TRAIN = """
for epoch in worker.epochs(4):
    for i, (inputs, labels) in enumerate(worker.share(loader)):
        optimizer.zero_grad()
        scale = 0.0 if worker.rank == 1 else 1.0
        head = heads[(i + worker.rank) % 2]
        (nn.functional.cross_entropy(head(model["body"](inputs)), labels) * scale).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("strategy", ["ps", "neighbours(topology=complete)"])
def test_what_nobody_used_is_skipped_alike_by_everybody(tmp_path: Path, strategy: str) -> None:
    """Heads used by some workers only, with weight decay; worker 1's gradients are exactly 0."""
    script = write(tmp_path, TORCH, HEADS, TORCH_JOIN, HEADS_TRAIN)
    expected = simulated(script, 3, "allreduce")
    assert expected.consensus == 0.0
    unused = expected.replicas[0].model["heads"][2].weight
    assert torch.equal(unused, expected.replicas[2].model["heads"][2].weight)
    assert unused.grad is None
    got = simulated(script, 3, strategy)
    for mine, theirs in zip(got.replicas[:3], expected.replicas, strict=True):
        for a, b in zip(mine.model.parameters(), theirs.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_a_sampler_that_shuffles_with_pythons_numbers_gives_all_workers_one_order(tmp_path: Path) -> None:
    sampler = """
    import random

    class Shuffled(torch.utils.data.Sampler):
        def __len__(self):
            return 26
        def __iter__(self):
            places = list(range(26))
            random.shuffle(places)
            return iter(places)

    x = torch.arange(26.0).repeat(4, 1).T
    loader = DataLoader(TensorDataset(x, y), batch_size=3, sampler=Shuffled())
    """
    train = TORCH_TRAIN.replace("epochs(2)", "epochs(1)").replace(
        "optimizer.zero_grad()", "SEEN.extend(inputs[:, 0].tolist()); optimizer.zero_grad()"
    )
    simulated(write(tmp_path, TORCH, sampler, TORCH_JOIN, train), 3, "gossip")
    assert sorted(SEEN) == list(range(26))


def test_what_a_script_splits_before_joining_all_workers_split_alike(tmp_path: Path) -> None:
    head = TORCH.replace("torch.manual_seed(0)\n", "")
    split = "SEEN.append(tuple(torch.utils.data.random_split(range(9), [5, 4])[0].indices))\n"
    simulated(write(tmp_path, head, split, TORCH_JOIN, TORCH_TRAIN), 3, "gossip")
    assert len(SEEN) == 3
    assert len(set(SEEN)) == 1


def test_weights_that_autocast_has_cached_are_not_another_workers(tmp_path: Path) -> None:
    def trained(cache: bool) -> list[float]:
        inside = TORCH_TRAIN.replace(
            "loss = nn.functional.cross_entropy(model(inputs), labels)\n        loss.backward()",
            f"with torch.autocast('cpu', torch.bfloat16, cache_enabled={cache}):\n"
            "            loss = nn.functional.cross_entropy(model(inputs), labels)\n"
            "            loss.backward()",
        )
        outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, inside), 3, "gossip")
        return [loss for _, _, loss in outcome.facts.losses]

    assert trained(True) == trained(False)
