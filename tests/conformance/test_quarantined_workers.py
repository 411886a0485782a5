"""Real workers whose gradients are not finite step after step: they are ended, and replaced if that is asked for."""

import os
import re
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.oracles.traces import Trace, worker_of
from support.processes.real import Heard, real
from support.scripts.training_scripts import write

from weft.config.chaos import NAN, ChaosPlan
from weft.config.on_loss import REPLACE, SHRINK, STOP
from weft.config.options import set_options
from weft.core.errors import ConfigError, NotFinite
from weft.engines.local.fork_server import FOLLOW_UPS
from weft.observe.logs.trace import write_trace

NUM_WORKERS = 3
CAUSE = "its gradients were not finite five steps in a row (steps 4 to 8)"

SCRIPT = """
import sys, time
import numpy as np
import weft

w, v = np.zeros(8), np.zeros(3)
worker = weft.join(arrays={"w": w, "v": v}, optimizer=weft.SGD(lr=0.1))
worker.tune(lr=(0.05, 0.2))
with open(f"{sys.argv[1]}/{worker.rank}.lives", "a+") as file:
    file.write("x")
    is_bad = str(worker.rank) in sys.argv[2] and file.tell() <= int(sys.argv[4])
num_bad = 0
for epoch in worker.epochs(int(sys.argv[5])):
    for rows in worker.share(240, batch_size=2):
        time.sleep(0.002)
        gradient = w - 1.0
        if is_bad and worker.steps >= 4 and num_bad < int(sys.argv[3]):
            gradient[3], num_bad = np.nan, num_bad + 1
        worker.step({"w": gradient, "v": v - 1.0}, loss=float(gradient @ gradient))
np.save(f"{sys.argv[1]}/{worker.rank}.npy", w)
"""


def ran(
    tmp_path: Path,
    bad: str,
    strategy: str = "allreduce",
    *,
    num_bad: int = 1 << 20,
    num_lives: int = 1,
    num_epochs: int = 4,
    **options: Any,
) -> tuple[Any, list[str]]:
    """The workers `bad` have `num_bad` bad gradients from step 4 on, in their first `num_lives` lives."""
    heard = Heard()
    arguments = tmp_path, bad or "-", num_bad, num_lives, num_epochs
    outcome = real(write(tmp_path, SCRIPT), NUM_WORKERS, strategy, *arguments, heard=heard, **options)
    for pid in outcome.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return outcome, heard.told


def check_learned(tmp_path: Path, *ranks: int) -> None:
    for rank in ranks:
        assert np.abs(np.load(tmp_path / f"{rank}.npy") - 1.0).max() < 0.1


STRATEGIES = [
    "allreduce",
    "quorum",
    "asgd",
    "neighbours",
    "async_gossip",
    "diloco(period=2)",
    "easgd(period=2)",
    "hogwild",
]
"""One of each kind; test_bad_numbers.py has all of them."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_worker_whose_gradients_are_bad_five_times_in_a_row_is_replaced(strategy: str, tmp_path: Path) -> None:
    outcome, told = ran(tmp_path, "1", strategy, on_loss=REPLACE)
    (loss,) = outcome.losses
    assert (loss.worker, loss.cause) == (1, CAUSE)
    assert loss.replaced_s is not None
    assert f"worker 1 is lost at step {loss.step}: {CAUSE}; 2 go on" in told
    check_learned(tmp_path, 0, 2)
    assert outcome.to_json()["not_finite"][1] >= 5
    assert np.isfinite(np.load(tmp_path / "1.npy")).all()


SHRUNK = [
    ("allreduce", {"transport": "tcp"}),
    ("allreduce", {"compress": "topk(0.5)"}),
    ("allreduce", {"compress": "int8", "transport": "tcp"}),
    ("allreduce", {"collective": "ring"}),
    ("local_sgd(period=2)", {"transport": "tcp"}),
    ("asgd", {"compress": "topk(0.5)"}),
    ("population", {}),
    ("sandblaster", {}),
    ("dc_asgd", {}),
]


@pytest.mark.parametrize(("strategy", "options"), SHRUNK)
def test_the_others_go_on_without_it(strategy: str, options: dict[str, Any], tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, "0", strategy, on_loss=SHRINK, **options)
    (loss,) = outcome.losses
    assert (loss.worker, loss.cause) == (0, CAUSE)
    assert [status.rank for status in outcome.workers] == [1, 2]
    check_learned(tmp_path, 1, 2)


def test_two_of_three_are_quarantined_if_the_third_is_well(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, "02", on_loss=SHRINK)
    assert {(loss.worker, loss.cause) for loss in outcome.losses} == {(0, CAUSE), (2, CAUSE)}
    check_learned(tmp_path, 1)


def test_four_in_a_row_are_left_out_and_that_is_all(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, "1", num_bad=4, num_epochs=2, on_loss=REPLACE)
    assert outcome.losses == []
    assert outcome.to_json()["not_finite"] == [0, 4, 0]


@pytest.mark.parametrize("on_loss", [REPLACE, SHRINK])
@pytest.mark.parametrize("strategy", ["allreduce", "asgd", "gossip"])
def test_if_all_are_bad_it_is_the_model_that_has_diverged(strategy: str, on_loss: str, tmp_path: Path) -> None:
    with pytest.raises(NotFinite) as found:
        ran(tmp_path, "012", strategy, on_loss=on_loss)
    assert re.match(  # where workers do not keep step, one may be quarantined before the others are bad
        r"training has diverged: the gradients of all workers were not finite in 5 steps in a row or more; of worker "
        r"\d the gradient of 'w' in steps 4 to 8\.\n  Lower the learning rate",
        str(found.value),
    )


def test_where_a_loss_would_end_the_run_it_goes_on_and_says_so(tmp_path: Path) -> None:
    outcome, told = ran(tmp_path, "1", on_loss=STOP)
    assert outcome.losses == []
    said = [text for text in told if "in a row" in text]
    assert said == [
        f"worker 1: {CAUSE}, while those of others were; it goes on and counts for nothing (--on-loss replace would "
        "replace it; --on-nan stop would end the run)"
    ]
    check_learned(tmp_path, 0, 1, 2)


def test_where_a_loss_would_end_the_run_a_diverged_one_goes_on_and_says_so_once(tmp_path: Path) -> None:
    outcome, told = ran(tmp_path, "012", num_epochs=2)
    assert outcome.to_json()["not_finite"] == [76, 76, 76]
    assert sum(text.startswith("training has diverged: ") for text in told) == 1


def test_one_that_is_bad_again_and_again_is_not_replaced_for_ever(tmp_path: Path) -> None:
    outcome, told = ran(tmp_path, "2", num_lives=9, num_epochs=12, on_loss=REPLACE)
    assert [loss.worker for loss in outcome.losses] == [2, 2, 2, 2]
    assert "worker 2 was started anew 3 times within a minute, and is not again" in told
    check_learned(tmp_path, 0, 1)


@pytest.mark.parametrize(
    ("strategy", "num_workers", "options"),
    [("allreduce", 3, {}), ("allreduce", 3, {"transport": "tcp"}), ("asgd", 3, {}), ("gossip", 3, {}), (None, 1, {})],
)
def test_the_first_bad_gradient_ends_the_run_if_that_is_asked_for(
    strategy: str | None, num_workers: int, options: dict[str, Any], tmp_path: Path
) -> None:
    asked, _ = set_options(["run.on_nan=stop"])
    worker = num_workers - 1
    arguments = tmp_path, worker, 1, 1, 2
    with pytest.raises(NotFinite) as found:
        real(write(tmp_path, SCRIPT), num_workers, strategy, *arguments, options=asked, **options)
    assert re.search(
        rf"worker {worker} \(host .*\) failed at step \d: the gradient of 'w' of worker {worker} is not finite at step "
        r"4, where its loss is nan, and --on-nan \(run\.on_nan\) is stop\.\n  Lower the learning rate",
        str(found.value),
    )


@pytest.mark.parametrize("on_loss", [REPLACE, SHRINK])
@pytest.mark.parametrize("strategy", ["allreduce", "local_sgd(period=2)"])
def test_chaos_spoils_gradients_until_the_worker_is_quarantined(strategy: str, on_loss: str, tmp_path: Path) -> None:
    chaos = ChaosPlan(NAN, 0.3, 1)
    outcome, told = ran(tmp_path, "", strategy, num_epochs=5, on_loss=on_loss, chaos=chaos)
    struck = [text for text in told if text.startswith("chaos: ")]
    assert struck
    assert all(text.endswith("is given gradients that are not finite") for text in struck)
    assert outcome.losses
    assert len(outcome.losses) <= len(struck), "who takes the place of one that was struck is well"
    assert all("not finite five steps in a row" in loss.cause for loss in outcome.losses)
    check_learned(tmp_path, *(status.rank for status in outcome.workers if on_loss == SHRINK))


TORCH = """
import time
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 5)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=2, shuffle=True)
model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(8):
    for inputs, wanted in worker.share(loader):
        time.sleep(0.005)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
"""


def test_who_takes_the_place_of_a_torch_worker_with_bad_gradients_is_well(tmp_path: Path) -> None:
    """Its predecessor's memory for gradients, which is not finite, is its own now."""
    for name in ("torch", *FOLLOW_UPS["torch"]):  # workers that are forked from this process begin at once
        import_module(name)
    heard, chaos = Heard(), ChaosPlan(NAN, 1.5, 3)
    outcome = real(write(tmp_path, TORCH), NUM_WORKERS, "allreduce", heard=heard, on_loss=REPLACE, chaos=chaos)
    num_struck = sum(text.startswith("chaos: ") for text in heard.told)
    assert 1 <= len(outcome.losses) <= num_struck
    assert outcome.losses[0].replaced_s is not None


def test_chaos_that_would_only_spoil_gradients_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        ran(tmp_path, "", chaos=ChaosPlan(NAN, 1.0))
    assert str(refused.value) == (
        "--chaos would spoil the gradients of workers, and with --on-loss stop these go on and count for nothing.\n"
        "  Use --on-loss replace or shrink, with -n 2 or more."
    )


def test_a_trace_shows_who_was_quarantined_and_replaced_and_its_messages_from_then_on(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, "1", "asgd", on_loss=REPLACE, traces=True)
    (loss,) = outcome.losses
    write_trace(tmp_path / "a.json", outcome.tracks, {})
    trace = Trace(tmp_path / "a.json")
    told = [(event["name"], worker_of(event), event["args"]["cause"]) for event in trace.of("i")]
    assert told == [("quarantined", 1, CAUSE), ("replaced", 1, CAUSE)]
    assert loss.replaced_s is not None
    after = [(source, target) for source, target, event in trace.arrows() if event["ts"] > 1e6 * loss.replaced_s]
    assert {(0, 1), (1, 0)} <= set(after)
