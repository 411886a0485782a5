"""Runs of several workers that go on from checkpoints: bit-equal, or with other workers and under other strategies."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest
import torch._dynamo  # noqa: F401 - here, once: every fork would take seconds for it
from support.pairs import in_turn
from support.processes.commands import weft_command
from support.processes.launches import wait_until
from support.processes.real import fork_server_here

from weft.checkpoints.folder import find_newest, name_of, steps_in
from weft.cli.options import run_on

pytestmark = pytest.mark.processes

SCRIPT = """
import json, os, time, torch, weft
from torch import nn

torch.manual_seed(0)
samples = torch.randn(94, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
worker = weft.join(model, optimizer)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 9, 0.7)
worker.keep(scheduler=scheduler)
data = torch.utils.data.TensorDataset(samples, torch.arange(94))
loader = torch.utils.data.DataLoader(data, batch_size=3, shuffle=True, drop_last=True)

def note_loss(moment):
    model.eval()
    with torch.no_grad(), open(f"{moment}.{worker.rank}", "w") as file:
        file.write(str(model(samples).square().mean().item()))
    model.train()

with open(f"lives.{worker.rank}", "a") as lives:
    lives.write("x")

def wait_for_lives(rank, num_lives):
    while not (os.path.exists(f"lives.{rank}") and os.path.getsize(f"lives.{rank}") >= num_lives):
        time.sleep(0.001)

is_first = True
for epoch in worker.epochs(int(os.environ.get("EPOCHS", "3"))):
    for x, numbers in worker.share(loader):
        if is_first:
            is_first = False
            note_loss("first loss")
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        scheduler.step()
        with open(f"used.{worker.rank}", "a") as used:
            used.writelines(f"{epoch} {number}\\n" for number in numbers.tolist())
        if os.environ.get("KILL") == f"{worker.rank}:{worker.steps}":
            while not os.path.isdir(os.environ.get("AFTER", ".")):
                time.sleep(0.001)
            os.kill(os.getpid(), 9)
        if "LIVES" in os.environ and worker.steps == int(os.environ["KILL"].split(":")[1]) + 2:
            wait_for_lives(*map(int, os.environ["LIVES"].split(":")))
        time.sleep(float(os.environ.get("SLEEP", "0")))
    worker.report(lr=scheduler.get_last_lr()[0])
    if os.environ.get("LEAVE") == str(epoch):
        break
note_loss("last loss")
tensors = {**model.state_dict(), "lr": torch.tensor(scheduler.get_last_lr(), dtype=torch.float64)}
for number, state in optimizer.state_dict()["state"].items():
    tensors |= {f"{number}.{name}": value for name, value in state.items()}
with open(f"end.{worker.rank}", "w") as end:
    json.dump({name: tensor.tolist() for name, tensor in sorted(tensors.items())}, end)
"""
CHECKPOINTS = ("--on-loss", "stop", "--checkpoint", "runs", "--checkpoint-every", "4steps")


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_on, "fork_server_of", fork_server_here)
    (tmp_path / "train.py").write_text(SCRIPT)


def ends(num_workers: int) -> list[str]:
    """What the workers had at the end; the files are removed."""
    paths = [Path(f"end.{rank}") for rank in range(num_workers)]
    contents = [path.read_text() for path in paths]
    for path in paths:
        path.unlink()
    return contents


def losses(moment: str, num_workers: int) -> list[float]:
    """On all samples, by each worker's model when its process took its first batch, or when its script had ended."""
    return [float(Path(f"{moment} loss.{rank}").read_text()) for rank in range(num_workers)]


@pytest.mark.parametrize(
    "options",
    [
        ("--strategy", "allreduce"),
        ("--strategy", "allreduce", "--compress", "topk(0.3)"),
        ("--strategy", "allreduce", "--transport", "tcp", "--set", "reduce.collective=butterfly"),
        ("--strategy", "allreduce", "--hosts", "2", "--set", "reduce.collective=hierarchical"),
        ("--strategy", "local_sgd(period=2)"),
        ("--strategy", "diloco(period=4)"),
    ],
    ids=" ".join,
)
def test_a_run_that_was_ended_again_and_again_ends_bit_equal(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weft_command("run", "train.py", "-n", 3, *options).code == 0
    expected = ends(3)
    for kill, after in (("0:5", 4), ("2:18", 16)):
        monkeypatch.setenv("KILL", kill)
        monkeypatch.setenv("AFTER", f"runs/{name_of(after)}")
        assert weft_command("run", "train.py", "-n", 3, *options, *CHECKPOINTS).code == 1
    monkeypatch.delenv("KILL")
    resumed = weft_command("run", "train.py", "-n", 3, *options, *CHECKPOINTS)
    assert resumed.code == 0, resumed.err
    assert "goes on from the checkpoint of step 16, 1 of 3 epochs and 6 batches" in resumed.err + resumed.out
    assert ends(3) == expected
    again = weft_command("run", "train.py", "-n", 3, *options, *CHECKPOINTS)
    assert (again.code, again.out) == (0, "")
    assert "there is nothing left to do" in again.err


@pytest.mark.parametrize("num_workers", [1, 3])
def test_a_script_that_has_left_its_loop_goes_on_with_the_next_epoch(
    num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scheduler has made the steps of the epoch in which it left, and makes none of them again."""
    command, options = ("run", "train.py", "-n", num_workers), ("--checkpoint", "runs")
    assert weft_command(*command).code == 0
    expected = ends(num_workers)
    monkeypatch.setenv("LEAVE", "1")
    assert weft_command(*command, *options).code == 0
    monkeypatch.delenv("LEAVE")
    for rank in range(num_workers):
        Path(f"used.{rank}").unlink()
    resumed = weft_command(*command, *options, "--", "now to the end")
    assert resumed.code == 0, resumed.err
    assert "2 of 3 epochs" in resumed.err + resumed.out
    assert ends(num_workers) == expected
    lines = [line for rank in range(num_workers) for line in Path(f"used.{rank}").read_text().splitlines()]
    assert {line.split()[0] for line in lines} == {"2"}


def test_what_a_script_does_not_name_is_missed_at_the_end_too() -> None:
    Path("train.py").write_text(SCRIPT.replace("worker.keep(scheduler=scheduler)\n", ""))
    ended = weft_command("run", "train.py", "-n", 2, "--checkpoint", "runs")
    assert ended.code == 0
    assert "THE CHECKPOINT OF STEP 45 IS NOT WRITTEN" in ended.err
    assert "the script's learning-rate scheduler would begin anew" in ended.err
    assert steps_in(Path("runs")) == []


ARRAYS = """
import json, os, time
import numpy as np
import weft

w = np.ones(5)
worker = weft.join(arrays={"w": w}, optimizer=weft.Momentum(lr=0.05, momentum=0.9))
for epoch in worker.epochs(3):
    for rows in worker.share(94, batch_size=3):
        worker.step({"w": w * rows.mean() / 50 + 0.1 * np.random.rand(5)})
        if os.environ.get("KILL") == f"{worker.rank}:{worker.steps}":
            while not os.path.isdir(os.environ["AFTER"]):
                time.sleep(0.001)
            os.kill(os.getpid(), 9)
with open(f"end.{worker.rank}", "w") as end:
    json.dump(w.tolist(), end)
"""


@pytest.mark.parametrize("strategy", ["allreduce", "local_sgd(period=2)"])
def test_a_run_of_arrays_that_was_ended_ends_bit_equal_and_goes_on_with_others(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("train.py").write_text(ARRAYS)
    command = ("run", "train.py", "--strategy", strategy)
    assert weft_command(*command, "-n", 3).code == 0
    expected = ends(3)
    monkeypatch.setenv("KILL", "2:9")
    monkeypatch.setenv("AFTER", f"runs/{name_of(8)}")
    assert weft_command(*command, "-n", 3, *CHECKPOINTS).code == 1
    monkeypatch.delenv("KILL")
    copytree("runs", "others")
    resumed = weft_command(*command, "-n", 3, *CHECKPOINTS)
    assert resumed.code == 0, resumed.err
    assert ends(3) == expected
    others = weft_command(*command, "-n", 2, "--checkpoint", "others")
    assert others.code == 0, others.err
    assert "with 2 workers instead of 3" in others.err + others.out


@pytest.mark.parametrize(
    ("strategy", "num_steps"), in_turn(["allreduce", "local_sgd(period=2)", "allreduce"], [4, 10, 14])
)
def test_what_follows_the_loop_over_batches_counts_once_though_a_run_is_cut_short_and_goes_on(
    strategy: str, num_steps: int
) -> None:
    once_per_epoch = SCRIPT.replace("        scheduler.step()\n", "").replace(
        "    worker.report(", "    scheduler.step()\n    torch.rand(3)\n    worker.report("
    )
    noisy = once_per_epoch.replace("model(x).square()", "model(x + 0.1 * torch.randn_like(x)).square()")
    quiet = (
        "import warnings\nwarnings.filterwarnings('ignore', 'Detected call of `lr_scheduler')\n"  # no batch was left
    )
    Path("train.py").write_text(quiet + noisy.replace("StepLR(optimizer, 9, 0.7)", "StepLR(optimizer, 1, 0.7)"))
    command = ("run", "train.py", "-n", 3, "--strategy", strategy)
    assert weft_command(*command).code == 0
    expected = ends(3)
    first = weft_command(*command, "--checkpoint", "runs", "--steps", num_steps)
    assert first.code == 0, first.err
    assert ends(3) != expected
    rest = weft_command(*command, "--checkpoint", "runs")
    assert rest.code == 0, rest.err
    assert ends(3) == expected


@pytest.mark.parametrize(
    ("strategy", "num_workers", "next_strategy"),
    [
        ("allreduce", 2, None),
        ("allreduce", 7, None),
        ("allreduce", 3, "gossip"),
        ("async_gossip", 5, None),
        ("async_gossip", 4, "ssp(staleness=2)"),
    ],
)
def test_other_workers_under_another_strategy_use_each_remaining_sample_once(
    strategy: str, num_workers: int, next_strategy: str | None
) -> None:
    checkpoints = ("--checkpoint", "runs")
    first = weft_command("run", "train.py", "-n", 4, "--strategy", strategy, "--steps", 11, *checkpoints)
    assert first.code == 0, first.err
    last_losses = losses("last", 4)
    rest = weft_command("run", "train.py", "-n", num_workers, "--strategy", next_strategy or strategy, *checkpoints)
    assert rest.code == 0, rest.err
    assert "goes on from the checkpoint of step 11, 1 of 3 epochs and 4 batches" in rest.err + rest.out
    if strategy == "allreduce":
        assert losses("first", num_workers) == pytest.approx([last_losses[0]] * num_workers, rel=1e-2)
    lines = [
        line for rank in range(7) if (path := Path(f"used.{rank}")).exists() for line in path.read_text().splitlines()
    ]
    uses = Counter(lines)
    first_epochs = sorted(Counter(line.split()[0] for line in uses).items())[:2]
    assert first_epochs == [("0", 84), ("1", 84)], "drop_last leaves out 10 of 94"
    assert sum(uses.values()) - len(uses) < num_workers, "samples that stand in, so that all make a step"


@pytest.mark.parametrize(
    ("strategy", "before", "after"),
    [("allreduce", 1, 3), ("allreduce", 3, 1), ("ssp(staleness=2)", 3, 1), ("local_sgd(period=2)", 1, 2)],
)
def test_between_epochs_several_go_on_where_one_was_and_one_where_several_were(
    strategy: str, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, checkpoints = ("run", "train.py", "--strategy", strategy), ("--checkpoint", "runs")
    monkeypatch.setenv("EPOCHS", "2")
    first = weft_command(*command, "-n", before, *checkpoints)
    assert first.code == 0, first.err
    last_losses = losses("last", before)
    monkeypatch.setenv("EPOCHS", "3")
    for rank in range(before):
        Path(f"used.{rank}").unlink()
    rest = weft_command(*command, "-n", after, *checkpoints)
    assert rest.code == 0, rest.err
    told = rest.err + rest.out
    assert "2 of 2 epochs" in told
    assert f", with {after} worker{'s' * (after > 1)} instead of {before}" in told
    is_stale = strategy.startswith("ssp")  # what a worker had last is not what its servers have
    assert losses("first", after) == pytest.approx([last_losses[0]] * after, rel=0.2 if is_stale else 1e-2)
    lines = [line for rank in range(after) for line in Path(f"used.{rank}").read_text().splitlines()]
    assert {line.split()[0] for line in lines} == {"2"}
    assert len(lines) == len(set(lines)) == 90 + 3 * (after == 1), "drop_last leaves out the others"


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_within_an_epoch_one_and_several_do_not_fit_each_other(before: int, after: int) -> None:
    checkpoints = ("--checkpoint", "runs")
    assert weft_command("run", "train.py", "-n", before, "--steps", 4, *checkpoints).code == 0
    rest = weft_command("run", "train.py", "-n", after, *checkpoints)
    assert rest.code == 2
    assert "a single worker reads its data in an order of its own" in rest.err


def test_a_run_of_which_one_worker_was_left_goes_on_with_as_many_as_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ("run", "train.py", "--checkpoint", "runs", "-n")
    monkeypatch.setenv("KILL", "1:3")
    first = weft_command(*command, 2, "--steps", 9, "--on-loss", "shrink")
    assert first.code == 0, first.err
    alone = weft_command(*command, 1)
    assert alone.code == 2
    assert "is of 2 workers within an epoch" in alone.err
    rest = weft_command(*command, 2, "--on-loss", "shrink")
    assert rest.code == 0, rest.err
    assert "with 2 workers instead of 1" in rest.err + rest.out
    lines = [line for rank in range(2) for line in Path(f"used.{rank}").read_text().splitlines()]
    epochs = Counter(line.split()[0] for line in set(lines))
    assert sorted(epochs) == ["0", "1", "2"]
    assert min(epochs.values()) >= 90, "drop_last leaves out the others"
    assert len(lines) - len(set(lines)) <= 6, "the killed worker's last step, and samples that stand in"


def test_a_launcher_that_is_killed_leaves_checkpoints_from_which_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert weft_command("run", "train.py", "-n", 2).code == 0
    expected = ends(2)
    monkeypatch.setenv("SLEEP", "0.05")
    command = [sys.executable, "-m", "weft", "run", "train.py", "-n", "2", *CHECKPOINTS]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: bool(steps_in(Path("runs"))), "a checkpoint", os.sched_yield, 60)
        process.kill()
    monkeypatch.delenv("SLEEP")
    assert weft_command("run", "train.py", "-n", 2, *CHECKPOINTS).code == 0
    assert ends(2) == expected


def test_a_signal_lets_all_finish_their_step_and_write_a_checkpoint_that_is_not_of_a_finished_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPOCHS", "1000")
    command = [sys.executable, "-m", "weft", "run", "train.py", "-n", "2", "--checkpoint", "runs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        wait_until(Path("used.1").exists, "a step", os.sched_yield, 60)
        os.kill(process.pid, signal.SIGTERM)
        heard, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    manifest = find_newest(Path("runs")).manifest
    assert manifest is not None
    assert not manifest.is_finished
    assert manifest.step > 0
    assert len(manifest.workers) == 2
    assert heard.count(f"stopped at {manifest.place}; the checkpoint is in '{Path('runs').absolute()}'") == 1


def test_a_run_whose_workers_are_replaced_goes_on_from_its_checkpoint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEEP", "0.05")
    checkpoints = ("--on-loss", "replace", "--checkpoint", "runs", "--checkpoint-every", "4steps")
    monkeypatch.setenv("KILL", "1:6")
    monkeypatch.setenv("LIVES", "1:2")
    first = weft_command("run", "train.py", "-n", 3, *checkpoints, "--steps", 15)
    assert first.code == 0, first.err
    assert "replaced after" in first.err + first.out
    monkeypatch.setenv("KILL", "2:22")
    monkeypatch.setenv("LIVES", "2:3")
    rest = weft_command("run", "train.py", "-n", 3, *checkpoints)
    assert rest.code == 0, rest.err
    assert "replaced after" in rest.err + rest.out
    manifest = find_newest(Path("runs")).manifest
    assert manifest is not None
    assert manifest.is_finished
    lines = {line for rank in range(3) for line in Path(f"used.{rank}").read_text().splitlines()}
    epochs = sorted(Counter(line.split()[0] for line in lines).items())
    assert epochs == [("0", 90), ("1", 90), ("2", 90)]
