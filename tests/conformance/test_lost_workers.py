"""Real workers that are killed or stopped while the others go on: every sample is used once, and nobody hangs.

Sample i of the scripts moves only the i-th parameter, by the learning rate over the samples of its step. So the
parameters tell how often each sample was used, and in a step of how many.
"""

import os
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes.real import Heard, real
from support.scripts.training_scripts import write

from weft.config.chaos import KILL, ChaosPlan
from weft.config.on_loss import SHRINK
from weft.core.errors import ConfigError, NodeLost

NUM_SAMPLES, NUM_EPOCHS, NUM_WORKERS = 331, 3, 5

BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import weft

def die():
    os.kill(os.getpid(), signal.Signals[sys.argv[3]])

def perhaps_die(moment):
    for word in sys.argv[2].split():
        rank, step, when = word.split(":")
        if (int(rank), int(step)) == (worker.rank, worker.steps) and when == moment:
            die()
        if (int(rank), int(step)) == (worker.rank, worker.steps) and when.startswith("soon") and moment == "forward":
            threading.Timer(float(when[4:]) / 1e3, die).start()
"""

LOOP = f"""
log = os.open(f"{{sys.argv[1]}}/{{worker.rank}}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
epochs = [parameters().copy()]
for epoch in worker.epochs({NUM_EPOCHS}):
    for rows in batches():
        perhaps_die("forward")
        time.sleep(0.002)
        step(rows)
        os.write(log, f"{{epoch}} {{' '.join(map(str, rows))}}\\n".encode())
        perhaps_die("after")
    epochs.append(parameters().copy())
    worker.report(moved=lambda: float(-parameters().sum()))
np.save(f"{{sys.argv[1]}}/{{worker.rank}}.npy", np.stack(epochs))
"""

ARRAYS = f"""
{BEGIN}
w = np.zeros({NUM_SAMPLES})
worker = weft.join(arrays={{"w": w}}, optimizer=weft.SGD(lr=1.0))

def parameters():
    return w

def batches():
    return worker.share({NUM_SAMPLES}, batch_size=8)

def step(rows):
    gradient = np.zeros({NUM_SAMPLES})
    gradient[rows] = 1 / len(rows)
    worker.step({{"w": gradient}})
{LOOP}
"""

TORCH = f"""
{BEGIN}
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Embedding({NUM_SAMPLES}, 1, dtype=torch.float64)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
loader = DataLoader(TensorDataset(torch.arange({NUM_SAMPLES})), batch_size=8, shuffle=True)
worker = weft.join(model, optimizer)

def parameters():
    return model.weight.detach().numpy().reshape(-1)

def batches():
    return (rows.numpy() for (rows,) in worker.share(loader))

def step(rows):
    optimizer.zero_grad()
    model(torch.from_numpy(rows)).mean().backward()
    optimizer.step()
{LOOP}
"""


def ran(tmp_path: Path, script: str, deaths: str, how: str = "SIGKILL", **options: Any) -> tuple[Any, Heard]:
    heard = Heard()
    options.setdefault("strategy", "allreduce")
    file = write(tmp_path, script)
    outcome = real(
        file, NUM_WORKERS, options.pop("strategy"), tmp_path, deaths, how, heard=heard, on_loss=SHRINK, **options
    )
    return outcome, heard


def moved(tmp_path: Path, worker: int) -> list[Any]:
    """How far each parameter went down in each epoch, by this worker's replica."""
    epochs = np.load(tmp_path / f"{worker}.npy")
    return [before - after for before, after in pairwise(epochs)]


def check_each_once(far: Any) -> None:
    """Every sample was used once: of those that were in steps of n samples there are a multiple of n."""
    for each, count in Counter(np.round(far, 12)).items():
        assert each > 0, f"{count} samples were not used"
        size = 1 / each
        assert abs(size - round(size)) < 1e-6, f"{count} samples were used in steps that add up to {each}"
        assert count % round(size) == 0, f"{count} samples were in steps of {round(size)}"


DEATHS = {
    "while it computes": "1:3:forward 3:7:forward 0:20:forward",
    "after a step": "4:2:after 0:3:after 2:8:after",
    "two at once": "1:6:forward 2:6:forward 0:6:after",
    "at any time": "1:3:soon1 3:7:soon2.5 0:11:soon4",
    "at the first step and the last": "2:1:after 1:8:forward 3:26:forward",
}


@pytest.mark.parametrize("deaths", DEATHS.values(), ids=DEATHS)
@pytest.mark.parametrize(
    ("script", "options"),
    [(ARRAYS, {}), (TORCH, {}), (ARRAYS, {"transport": "tcp"}), (ARRAYS, {"collective": "ring"})],
    ids=["arrays", "torch", "tcp", "ring over shm"],
)
def test_every_sample_is_used_once_though_three_of_five_workers_die(
    script: str, deaths: str, options: dict[str, Any], tmp_path: Path
) -> None:
    outcome, heard = ran(tmp_path, script, deaths, **options)
    lost = {int(word.split(":")[0]) for word in deaths.split()}
    left = sorted(set(range(NUM_WORKERS)) - lost)
    assert {loss.worker for loss in outcome.losses} == lost
    assert [status.rank for status in outcome.workers] == left
    for far in moved(tmp_path, left[0]):
        check_each_once(far)
    for worker in left[1:]:
        assert np.array_equal(np.load(tmp_path / f"{worker}.npy"), np.load(tmp_path / f"{left[0]}.npy"))
    assert sum("is lost at step" in text for text in heard.told) == 3
    assert all(loss.told_s is not None and loss.told_s - loss.detected_s < 1.0 for loss in outcome.losses)


@pytest.mark.parametrize("strategy", ["async_gossip", "local_sgd(period=2)", "asgd", "hogwild", "ensemble"])
def test_what_a_lost_worker_did_not_do_is_done_by_others(strategy: str, tmp_path: Path) -> None:
    deaths = "1:3:forward 3:5:after 0:9:forward"
    outcome, _ = ran(tmp_path, ARRAYS, deaths, strategy=strategy)
    check_used_once(tmp_path, outcome)


def check_used_once(tmp_path: Path, outcome: Any) -> None:
    """By the workers' own logs; one sample that does not count stands in for each part of a round that is too small."""
    lines = [
        line.split() for rank in range(NUM_WORKERS) for line in (tmp_path / f"{rank}.txt").read_text().splitlines()
    ]
    used = Counter((number, row) for number, *rows in lines for row in rows)
    stood_in = NUM_WORKERS * len(outcome.losses)
    assert len(used) + outcome.num_unused == NUM_EPOCHS * NUM_SAMPLES
    assert sum(used.values()) <= NUM_EPOCHS * NUM_SAMPLES + stood_in


def test_what_a_worker_used_that_was_done_long_before_the_others_is_not_used_again(tmp_path: Path) -> None:
    script = ARRAYS.replace("time.sleep(0.002)", "time.sleep(0 if worker.rank == 2 else 0.02)")
    outcome, _ = ran(tmp_path, script, "1:5:forward", strategy="hogwild")
    check_used_once(tmp_path, outcome)


def test_a_stopped_worker_is_killed_and_left_behind(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, TORCH, "2:5:forward", "SIGSTOP")
    (loss,) = outcome.losses
    assert loss.worker == 2
    assert "stopped for 2." in loss.cause
    check_each_once(moved(tmp_path, 0)[0])


def test_the_others_go_on_without_a_worker_that_dies_in_its_first_step(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, TORCH, "2:0:forward")
    assert [loss.worker for loss in outcome.losses] == [2]
    check_each_once(moved(tmp_path, 0)[0])


def test_over_sockets_a_worker_that_dies_before_it_has_connected_ends_the_run(tmp_path: Path) -> None:
    early = ARRAYS.replace("def parameters():", "if worker.rank == 1:\n    die()\n\ndef parameters():", 1)
    with pytest.raises(NodeLost, match=r"worker 1 .* killed by signal 9"):
        ran(tmp_path, early, "", transport="tcp")


def test_the_script_s_own_error_still_ends_the_run(tmp_path: Path) -> None:
    script = ARRAYS.replace(
        "def step(rows):", "def step(rows):\n    assert (worker.rank, worker.steps) != (1, 4), 'no'", 1
    )
    with pytest.raises(NodeLost, match=r"worker 1 .* raised AssertionError at step 4: no"):
        ran(tmp_path, script, "")


def test_the_last_worker_s_death_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=r"worker 4 .* killed by signal 9"):
        ran(tmp_path, ARRAYS, " ".join(f"{rank}:{2 + rank}:forward" for rank in range(NUM_WORKERS)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"share": "stealing", "strategy": "async_gossip"}, "--share stealing"),
        ({"transport": "torch"}, "--transport torch"),
        ({"hosts": (0, 0, 0, 1, 1)}, "--hosts"),
        ({"baseline": "ddp", "strategy": None}, "--baseline ddp"),
    ],
)
def test_what_cannot_go_on_without_a_worker_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"run\.on_loss=shrink does not go with {said} yet"):
        ran(tmp_path, ARRAYS, "", **options)


def test_a_stream_whose_batches_cannot_be_dealt_again_is_refused(tmp_path: Path) -> None:
    script = ARRAYS.replace(f"worker.share({NUM_SAMPLES}, batch_size=8)", "worker.share(iter([np.arange(8)] * 50))")
    with pytest.raises(ConfigError, match=r"run\.on_loss=shrink deals out a lost worker's batches by the places"):
        ran(tmp_path, script, "")


def test_chaos_is_refused_where_the_first_loss_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.chaos would kill workers, and with run\.on_loss=stop the first"):
        real(write(tmp_path, ARRAYS), 2, "allreduce", chaos=ChaosPlan(KILL, 1.0))


def test_chaos_leaves_one_worker_which_does_all_that_is_left(tmp_path: Path) -> None:
    slowly = ARRAYS.replace("time.sleep(0.002)", "time.sleep(0.01)")
    outcome, heard = ran(tmp_path, slowly, "", chaos=ChaosPlan(KILL, 0.05, 1))
    assert [text.removeprefix("chaos: ") for text in heard.told if "chaos" in text] == [
        f"worker {loss.worker} is killed" for loss in outcome.losses
    ]
    assert len(outcome.losses) == NUM_WORKERS - 1
    for far in moved(tmp_path, outcome.workers[0].rank):
        check_each_once(far)


def test_nothing_is_left_of_a_run_whose_workers_died(tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, ARRAYS, "1:3:forward")
    for pid in outcome.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
