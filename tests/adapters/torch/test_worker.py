"""The torch worker: watches backward and step."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.scripts.training_scripts import SEEN, TORCH, TORCH_JOIN, TORCH_TRAIN, simulated, write
from torch import nn

import weft
from weft.adapters.torch.worker import TorchWorker
from weft.config.registry import STRATEGIES
from weft.core.errors import ConfigError
from weft.core.names import PARAMS
from weft.engines.simulated.outcome import Outcome

BATCHNORM = TORCH.replace("nn.ReLU()", "nn.BatchNorm1d(8), nn.ReLU()")
ONE_STEP = """
inputs, labels = next(worker.share(loader))
optimizer.zero_grad(set_to_none={none})
nn.functional.cross_entropy(model(inputs), labels).backward()
{between}
optimizer.step()
"""


def parameters(outcome: Outcome, rank: int = 0) -> list[torch.Tensor]:
    return [parameter.detach() for parameter in outcome.replicas[rank].model.parameters()]


def same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_between_backward_and_step_the_reduced_gradient_is_seen(tmp_path: Path) -> None:
    between = """
seen = [parameter.grad.clone() for parameter in model.parameters()]
plain = torch.autograd.grad(nn.functional.cross_entropy(model(inputs), labels), list(model.parameters()))
SEEN.append((worker.rank, len(labels), seen, plain))
"""
    simulated(write(tmp_path, TORCH, TORCH_JOIN, ONE_STEP.format(none=True, between=between)), 4, "allreduce")
    told = sorted(SEEN, key=lambda each: each[0])
    total = sum(samples for _, samples, _, _ in told)
    for i in range(4):
        mean = sum(samples * own[i] for _, samples, _, own in told) / total
        for _, _, seen, own in told:
            torch.testing.assert_close(seen[i], mean)
            assert not torch.equal(seen[i], own[i])


def test_between_backward_and_step_other_strategies_see_the_local_gradient(tmp_path: Path) -> None:
    between = """
plain = torch.autograd.grad(nn.functional.cross_entropy(model(inputs), labels), list(model.parameters()))
SEEN.append(all(torch.equal(p.grad, own) for p, own in zip(model.parameters(), plain)))
"""
    simulated(write(tmp_path, TORCH, TORCH_JOIN, ONE_STEP.format(none=True, between=between)), 3, "gossip")
    assert SEEN == [True] * 3


@pytest.mark.parametrize("edit", ["parameter.grad.zero_()", "parameter.grad = torch.zeros_like(parameter)"])
@pytest.mark.parametrize("strategy", ["allreduce", "ps", "gossip", "neighbours"])
def test_an_edit_between_backward_and_step_counts(tmp_path: Path, strategy: str, edit: str) -> None:
    between = f"for parameter in model.parameters():\n    {edit}"
    start = "SEEN.append([p.detach().clone() for p in model.parameters()])"
    text = write(tmp_path, TORCH, start, TORCH_JOIN, ONE_STEP.format(none=True, between=between))
    outcome = simulated(text, 3, strategy)
    for after, before in zip(parameters(outcome), SEEN[0], strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=1e-7, msg="gossip rounds where it mixes")


def test_a_step_without_an_edit_moves_the_parameters(tmp_path: Path) -> None:
    start = "SEEN.append([p.detach().clone() for p in model.parameters()])"
    outcome = simulated(write(tmp_path, TORCH, start, TORCH_JOIN, ONE_STEP.format(none=True, between="")), 3)
    assert not same(parameters(outcome), SEEN[0])


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossip"])
def test_gradients_may_be_zeroed_in_place(tmp_path: Path, strategy: str) -> None:
    by_none = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN), 3, strategy)
    text = TORCH_TRAIN.replace("zero_grad()", "zero_grad(set_to_none=False)")
    in_place = simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 3, strategy)
    assert same(parameters(in_place), parameters(by_none))


def test_gradients_may_add_up_over_several_backwards(tmp_path: Path) -> None:
    text = """
    for i, (inputs, labels) in enumerate(worker.share(loader)):
        (nn.functional.cross_entropy(model(inputs), labels, reduction="sum") / 6).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
    """
    head = TORCH.replace("randn(26", "randn(24").replace("(26,)", "(24,)")
    twice = simulated(write(tmp_path, head, TORCH_JOIN, text), 2, "allreduce")
    text = text.replace("i % 2", "True")
    at_once = simulated(write(tmp_path, head.replace("batch_size=3", "batch_size=6"), TORCH_JOIN, text), 2, "allreduce")
    for a, b in zip(parameters(twice), parameters(at_once), strict=True):
        torch.testing.assert_close(a, b)
    assert (twice.facts.steps, twice.facts.samples) == ([2, 2], 24.0)
    assert sum(twice.facts.compute_s) == pytest.approx(sum(at_once.facts.compute_s), rel=0.1), "no sample counts twice"


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"hogwild"}))  # which is for one host
def test_a_model_with_batchnorm_trains_under_every_strategy(tmp_path: Path, strategy: str) -> None:
    tune = "worker.tune(lr=(0.01, 1.0))\n"
    outcome = simulated(write(tmp_path, BATCHNORM, TORCH_JOIN, tune, TORCH_TRAIN), 3, strategy)
    assert sum(outcome.facts.steps) >= 3 * 6, "some may be made twice, on purpose"
    for replica in outcome.replicas:
        assert all(value.isfinite().all() for value in replica.model.state_dict().values())
    assert outcome.arrays is not None
    assert all(np.isfinite(array).all() for array in outcome.arrays)
    assert any(array.any() for array in outcome.arrays)


def test_batchnorms_means_are_equal_between_workers_under_allreduce(tmp_path: Path) -> None:
    outcome = simulated(write(tmp_path, BATCHNORM, TORCH_JOIN, TORCH_TRAIN), 3, "allreduce")
    first, *others = [replica.model[1] for replica in outcome.replicas]
    for other in others:
        assert torch.equal(first.running_mean, other.running_mean)
        assert torch.equal(first.running_var, other.running_var)
    assert first.running_mean.any()
    assert int(first.num_batches_tracked) == 6


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("strategy", ["allreduce", "ssp"])
def test_a_scheduler_made_before_or_after_joining_works_without_a_warning(
    tmp_path: Path, place: str, strategy: str
) -> None:
    scheduler = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.0)\n"
    head = TORCH + (scheduler + TORCH_JOIN if place == "before" else TORCH_JOIN + scheduler)
    tell = "    SEEN.append([p.detach().clone() for p in model.parameters()])\n"
    train = TORCH_TRAIN + "    scheduler.step()\n" + tell
    outcome = simulated(write(tmp_path, head.replace(", momentum=0.9", ""), train), 1, strategy)
    assert same(SEEN[0], SEEN[1]), "the learning rate of the second epoch is 0"
    assert outcome.replicas[0].optimizers.groups[0]["lr"] == 0.0


def test_a_closure_given_to_an_optimizer_that_needs_none_is_called_once_for_its_loss(tmp_path: Path) -> None:
    expected = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN), 2, "gossip")
    lines = TORCH_TRAIN.strip("\n").splitlines()
    inside = "".join(f"    {line}\n" for line in lines[2:5])
    closure = f"        def closure():\n{inside}            return loss\n        SEEN.append(optimizer.step(closure))\n"
    got = simulated(write(tmp_path, TORCH, TORCH_JOIN, "\n".join(lines[:2]) + "\n" + closure), 2, "gossip")
    assert same(parameters(got), parameters(expected))
    assert sorted(loss.item() for loss in SEEN) == sorted(loss for _, _, loss in got.facts.losses)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossip"])
def test_models_of_these_types_train(tmp_path: Path, kind: str, strategy: str) -> None:
    head = TORCH.replace("optimizer =", f"model.to(torch.{kind})\nSEEN.append(model[0].weight.tolist())\noptimizer =")
    text = TORCH_TRAIN.replace("model(inputs)", f"model(inputs.to(torch.{kind}))")
    outcome = simulated(write(tmp_path, head, TORCH_JOIN, text), 3, strategy)
    weight = parameters(outcome)[0]
    assert {parameter.dtype for parameter in parameters(outcome)} == {getattr(torch, kind)}
    assert weight.isfinite().all()
    assert weight.tolist() != SEEN[0]


def test_bfloat16_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, TORCH, "model.bfloat16()\n", TORCH_JOIN), 2)
    assert str(refused.value) == (
        "the model has a tensor of torch.bfloat16 on 'cpu', which is not shared yet.\n"
        "  Use float16, float32 or float64, all on the CPU or all on one GPU (with --transport torch)."
    )


def test_random_numbers_differ_between_workers_after_joining_and_not_before(tmp_path: Path) -> None:
    draw = "torch.rand(1).item(), np.random.rand(), random.random(), nn.Dropout()(torch.ones(64)).tolist()"
    text = f"""
    import random
    import numpy as np
    random.seed(0)
    np.random.seed(0)
    before = {draw}
    worker = weft.join(model, optimizer)
    SEEN.append((before, ({draw})))
    worker.share(loader)
    {TORCH_TRAIN.strip().splitlines()[0]}
        pass
    """
    with pytest.raises(ConfigError, match=r"joined but never stepped"):
        simulated(write(tmp_path, TORCH, text), 4)
    befores, afters = zip(*SEEN, strict=True)
    assert all(before == befores[0] for before in befores)
    for one_source in zip(*afters, strict=True):
        assert len({str(value) for value in one_source}) == 4


def test_a_loop_over_the_whole_loader_is_refused_because_its_samples_are_not_known(tmp_path: Path) -> None:
    text = TORCH_TRAIN.replace("worker.share(loader)", "loader")
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 2)
    assert str(refused.value) == (
        "a step was made on samples that Weft does not know of, so it would weigh nothing.\n"
        "  Take them from worker.share(...), or say worker.count(32) before each backward."
    )


def test_things_that_are_no_model_and_no_optimizer_are_refused() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(ConfigError) as refused:
        weft.join(optimizer, model)
    assert str(refused.value) == (
        "weft.join was given a SGD and a Linear, but wants a torch model and its optimizer.\n"
        "  Use weft.join(model, optimizer)."
    )


def test_alone_nothing_of_the_users_is_touched(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    memory = model.weight.data_ptr()
    worker = weft.join(model, optimizer)
    assert "step" not in vars(optimizer)
    assert model.weight.data_ptr() == memory
    assert list(worker.share([1, 2])) == [1, 2]
    worker.report(loss=(model(torch.ones(2)) ** 2).sum() * 0)
    assert capsys.readouterr().out == "epoch   1  loss 0.0000\n"


def test_parameters_that_are_not_used_keep_no_gradient(tmp_path: Path) -> None:
    head = TORCH.replace("optimizer =", "model.append(nn.Linear(3, 3))\noptimizer =")
    head = head.replace("momentum=0.9", "weight_decay=0.1")
    text = TORCH_TRAIN.replace("model(inputs)", "model[:3](inputs)")
    tell = "        SEEN.append([p.grad is None for p in model.parameters()])\n"
    start = "first = model[3].weight.detach().clone()\n"
    after = "SEEN.append(torch.equal(model[3].weight, first))\n"
    simulated(write(tmp_path, head, start, TORCH_JOIN, text, tell, after), 1)
    expected = [*([[False] * 4 + [True] * 2] * 18), True]
    assert expected == SEEN, "not even weight decay moves them"


def test_a_reported_callable_runs_once_an_epoch_on_the_mean_and_the_model_is_put_back(tmp_path: Path) -> None:
    text = """    before = [p.detach().clone() for p in model.parameters()]
    worker.report(first=lambda: SEEN.append(model[0].weight.detach().clone()) or model[0].weight[0, 0].item())
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before))
"""
    script = write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN, text)
    outcome = simulated(script, 3, "gossip(topology=ring)")
    assert len(SEEN) == len(outcome.facts.reports) == 2
    mean = sum(parameters(outcome, rank)[0] for rank in range(3)) / 3
    torch.testing.assert_close(SEEN[-1], mean)
    assert outcome.facts.final == {"first": SEEN[-1][0, 0].item()}
    assert not torch.equal(SEEN[-1], parameters(outcome)[0])


def test_a_number_is_the_workers_own_and_averaged(tmp_path: Path) -> None:
    text = "    worker.report(rank=torch.tensor(1.0 * worker.rank, requires_grad=True))\n"
    outcome = simulated(write(tmp_path, TORCH, TORCH_JOIN, TORCH_TRAIN, text), 3)
    assert [report["rank"] for report in outcome.facts.reports] == [1.0, 1.0]


def test_the_result_is_saved_as_safetensors_that_load(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save = f"worker.save({str(path)!r})\n"
    outcome = simulated(write(tmp_path, BATCHNORM, TORCH_JOIN, TORCH_TRAIN, save), 3, "gossip(topology=ring)")
    saved = load_file(path)
    model = outcome.replicas[0].model
    assert outcome.arrays is not None
    assert set(saved) == set(model.state_dict())
    for array, mean in zip(outcome.arrays, outcome.replicas[0]._arrays[PARAMS], strict=True):
        mean[:] = array
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())


def test_gradients_of_several_portions_cannot_be_added_up(tmp_path: Path) -> None:
    text = """
    for inputs, labels in worker.share(loader):
        with worker.accumulate():
            pass
    """
    with pytest.raises(ConfigError) as refused:
        simulated(write(tmp_path, TORCH, TORCH_JOIN, text), 2, "sandblaster")
    assert str(refused.value) == (
        "this strategy counts each portion of the data for itself, so gradients of several cannot be added.\n"
        "  Give the loader a larger batch_size instead of worker.accumulate()."
    )


def test_a_script_that_seeds_torch_repeats_its_numbers_whatever_else_it_does_not_seed(tmp_path: Path) -> None:
    text = """
    import random
    import numpy as np
    random.seed(sys.argv[1])
    np.random.seed(int(sys.argv[1]))
    """
    path = write(tmp_path, TORCH, text, TORCH_JOIN, "SEEN.append(torch.rand(1).item())\n", TORCH_TRAIN)
    draws = []
    for seed in ("1", "2"):
        simulated(path, 3, "allreduce", seed)
        draws.append(list(SEEN))
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 3


def scheduled() -> tuple[TorchWorker, torch.optim.Optimizer]:
    """The worker of a script alone, and its optimizer."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    worker = weft.join(model, optimizer)
    assert isinstance(worker, TorchWorker)
    return worker, optimizer


def test_a_script_with_a_scheduler_takes_newcomers_in_only_if_it_names_that() -> None:
    worker, optimizer = scheduled()
    assert worker.refuses_newcomers([]) == ""
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    ema = nn.Linear(2, 1)
    for kept in ([], [ema], [scheduled()[1], torch.optim.lr_scheduler.StepLR(scheduled()[1], 1)]):
        assert worker.refuses_newcomers(kept) == (
            "the script's learning-rate scheduler would begin anew; name it by worker.keep(scheduler=scheduler)"
        )
    assert worker.refuses_newcomers([ema, scheduler]) == ""


def test_a_newcomer_goes_on_after_its_sponsors_steps_with_the_optimizers_of_its_own() -> None:
    (sponsor, theirs), (newcomer, mine) = scheduled(), scheduled()
    theirs.param_groups[0]["lr"] = 0.5
    newcomer.arrive(7, sponsor.hand_over_own(with_state=True))
    assert newcomer.steps == 7
    assert mine.param_groups[0]["lr"] == 0.5
    assert mine.param_groups[0]["params"][0] is not theirs.param_groups[0]["params"][0]
