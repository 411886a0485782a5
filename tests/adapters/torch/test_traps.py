"""Traps of real scripts under torch: each of these once trained wrongly, leaked or crashed."""

import gc
import runpy
from inspect import isclass
from pathlib import Path
from weakref import ref

import pytest
import torch
from support.scripts.training_scripts import SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write

from weft.adapters.torch.replica import TorchReplica
from weft.core.errors import ConfigError
from weft.engines.simulated.outcome import Outcome

UNION = (
    TORCH.replace("shuffle=True", "shuffle=False")
    .replace("optimizer =", "model.double()\noptimizer =")
    .replace("torch.randn(26, 4)", "torch.randn(26, 4, dtype=torch.float64)")
)
"""In an order that does not depend on who shuffles, and exactly enough to compare."""


def alone(script: Path) -> list[torch.Tensor]:
    """The parameters after a script that nobody launched: a plain loop."""
    return [parameter.detach() for parameter in runpy.run_path(str(script))["model"].parameters()]


def check_same(outcome: Outcome, expected: list[torch.Tensor], tolerance: float = 1e-9) -> None:
    """Every worker's parameters are these."""
    for replica in outcome.replicas:
        for mine, theirs in zip(replica.model.parameters(), expected, strict=True):
            torch.testing.assert_close(mine.detach(), theirs, atol=tolerance, rtol=tolerance)


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
    assert all((a == b).all() for a, b in zip(got.arrays, expected.arrays, strict=True))  # type: ignore[arg-type]


def test_what_an_optimizer_keeps_in_its_groups_stays(tmp_path: Path) -> None:
    counting = """
    class Counting(torch.optim.SGD):
        def step(self, closure=None):
            self.param_groups[0]["k"] = self.param_groups[0].get("k", 0) + 1
            return super().step(closure)

    optimizer = Counting(model.parameters(), lr=0.1)
    """
    outcome = simulated(write(tmp_path, TORCH, counting, TORCH_JOIN, TORCH_TRAIN), 2, "allreduce")
    assert outcome.replicas[0].optimizers.groups[0]["k"] == outcome.facts.steps[0] > 1


def test_a_message_carries_the_learning_rate_as_it_was(tmp_path: Path) -> None:
    head = TORCH.replace("lr=0.1", "lr=torch.tensor(0.1)")
    outcome = simulated(write(tmp_path, head, TORCH_JOIN, TORCH_TRAIN), 1, "allreduce")
    replica = outcome.replicas[0]
    then = replica.hyper()[0]["lr"]
    replica.optimizers.groups[0]["lr"].fill_(7.0)
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


LBFGS = """
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn={search!r})
worker = weft.join(model, optimizer)
for epoch in worker.epochs(3):
    for inputs, labels in worker.share(loader):
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss
        SEEN.append(float(optimizer.step(closure).detach()))
"""


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_of_many_workers_is_that_of_one_on_all_their_samples(tmp_path: Path, search: str | None) -> None:
    """Parts of 8, 9 and 9 samples: losses must be averaged by samples, or line searches would differ."""
    train = LBFGS.format(search=search)
    SEEN.clear()
    expected = alone(write(tmp_path, UNION.replace("batch_size=3", "batch_size=26"), train))
    losses = list(SEEN)
    outcome = simulated(write(tmp_path, UNION.replace("batch_size=3", "batch_size=9"), train), 3, "allreduce")
    check_same(outcome, expected)
    assert outcome.facts.steps == [3, 3, 3]
    assert sorted(SEEN) == pytest.approx(sorted(losses * 3), abs=1e-9), "all see the loss of all samples"


def test_lbfgs_under_an_ensemble_is_every_members_own(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, TORCH, LBFGS.format(search="strong_wolfe")), 2, "ensemble")
    assert outcome.facts.bytes_sent == 0
    first, second = (replica.model.state_dict() for replica in outcome.replicas)
    assert not any(torch.equal(value, second[name]) for name, value in first.items())
    assert outcome.facts.final_loss < 0.9 * outcome.facts.losses[0][2]  # type: ignore[operator]


@pytest.mark.parametrize("strategy", ["gossip", "ps", "local_sgd"])
def test_lbfgs_is_refused_where_replicas_differ(tmp_path: Path, strategy: str) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, TORCH, LBFGS.format(search=None)), 2, strategy)
    assert str(refused.value) == (
        "this optimizer computes gradients again and again in its step, which this strategy cannot share.\n"
        "  Use the strategy allreduce or ensemble, or an optimizer such as SGD or Adam."
    )


ACCUMULATE = """
for epoch in worker.epochs(2):
    for i, (inputs, labels) in enumerate(worker.share(loader)):
        loss = nn.functional.cross_entropy(model(inputs), labels, reduction="sum") / 12
        if {shares}:
            loss.backward()
        else:
            with worker.accumulate():
                loss.backward()
        if i % {k} == {k} - 1:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("shares", ["i % 4 == 3", "False"], ids=["the last one shares", "the step shares"])
@pytest.mark.parametrize("strategy", ["allreduce", "gossip(topology=ring)"])
def test_accumulated_micro_batches_are_one_big_batch_and_shared_once(
    tmp_path: Path, shares: str, strategy: str
) -> None:
    head = UNION.replace("(26", "(48")
    big = head.replace("batch_size=3", "batch_size=12")
    at_once = simulated(write(tmp_path, big, TORCH_JOIN, ACCUMULATE.format(shares=True, k=1)), 2, strategy)
    got = simulated(write(tmp_path, head, TORCH_JOIN, ACCUMULATE.format(shares=shares, k=4)), 2, strategy)
    assert got.facts.steps == at_once.facts.steps == [4, 4]
    assert got.facts.samples == at_once.facts.samples == 96.0
    assert got.facts.bytes_sent == at_once.facts.bytes_sent
    if strategy == "allreduce":
        check_same(got, [parameter.detach() for parameter in at_once.replicas[0].model.parameters()])


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("strategy", ["allreduce", "gossip"])
def test_checkpointed_layers_train_as_others_do(tmp_path: Path, use_reentrant: bool, strategy: str) -> None:
    expected = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN), 2, strategy)
    kept = f"checkpoint(model[:2], inputs.requires_grad_(), use_reentrant={use_reentrant})"
    inside = f"checkpoint(model[2:], {kept}, use_reentrant={use_reentrant})"
    head = TORCH + "from torch.utils.checkpoint import checkpoint\n"
    got = simulated(write(tmp_path, head, TORCH_JOIN, TORCH_TRAIN.replace("model(inputs)", inside)), 2, strategy)
    assert got.arrays is not None
    assert all((a == b).all() for a, b in zip(got.arrays, expected.arrays or (), strict=True))
    assert got.facts.bytes_sent == expected.facts.bytes_sent


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_dataset_can_be_shared_without_a_loader(tmp_path: Path, shuffle: bool) -> None:
    text = f"""
    data = TensorDataset(torch.arange(26), x, y)
    for epoch in worker.epochs(2):
        for rows, inputs, labels in worker.share(data, batch_size=3, shuffle={shuffle}):
            SEEN.append((epoch, worker.steps, worker.rank, rows.tolist()))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    """
    simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 3, "allreduce")
    orders = [[row for e, _, _, rows in sorted(SEEN) if e == epoch for row in rows] for epoch in (0, 1)]
    assert [sorted(order) for order in orders] == [list(range(26))] * 2
    assert (orders[0] == list(range(26))) is not shuffle
    assert (orders[0] == orders[1]) is not shuffle


NEEDS = {"LBFGS": "a closure", "SparseAdam": "sparse gradients"}
OPTIMIZERS = [
    name
    for name, kind in sorted(vars(torch.optim).items())
    if isclass(kind) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
]
WITHOUT_BIAS = {"Muon": "is for matrices only"}
TOLERANCE = {"Muon": 0.02}
"""It computes in bfloat16 on its way."""


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in NEEDS])
def test_every_optimizer_of_torch_trains_as_it_does_alone(tmp_path: Path, name: str) -> None:
    head = UNION.replace(
        "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)", f"torch.optim.{name}(model.parameters())"
    )
    if name in WITHOUT_BIAS:
        head = head.replace("8)", "8, bias=False)").replace("3))", "3, bias=False))")
    before = alone(write(tmp_path, head))
    expected = alone(write(tmp_path, head.replace("batch_size=3", "batch_size=6"), TORCH_JOIN, TORCH_TRAIN))
    assert any(not torch.equal(a, b) for a, b in zip(before, expected, strict=True))
    check_same(
        simulated(write(tmp_path, head, TORCH_JOIN, TORCH_TRAIN), 2, "allreduce"), expected, TOLERANCE.get(name, 1e-9)
    )


def test_the_optimizers_that_need_more_than_a_gradient_are_still_there() -> None:
    assert NEEDS.keys() | WITHOUT_BIAS.keys() <= set(OPTIMIZERS)
    assert len(OPTIMIZERS) > len(NEEDS)
