"""Scripts whose workers die where a test says so, and what their logs and parameters tell of the samples used.

Sample i of the scripts moves only the i-th parameter, by the learning rate over the samples of its step. So the
parameters tell how often each sample was used, and in a step of how many.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from support.processes.real import Heard, real
from support.scripts.training_scripts import write
from weft.config.on_loss import SHRINK

NUM_SAMPLES, NUM_EPOCHS, NUM_WORKERS = 331, 3, 5

BEGIN = """
import os, signal, socket, sys, threading, time
import numpy as np
import weft

def begin_life(rank):  # how many processes have begun a life with this rank
    with open(f"{sys.argv[1]}/{rank}.lives", "a+") as file:
        file.write("x")
        return file.tell()

def awaits_newcomer():  # for some steps after a death, until the new process has joined
    for rank, step, _ in (word.split(":") for word in sys.argv[2].split()):
        lives = f"{sys.argv[1]}/{rank}.lives"
        if int(step) <= worker.steps < int(step) + 12 and os.path.exists(lives) and os.path.getsize(lives) < 2:
            return True
    return False

def die():
    os.kill(os.getpid(), signal.Signals[sys.argv[3]])

def cut_a_connection():  # shut down one of this worker's connections; both processes live
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            sock = socket.socket(fileno=os.dup(number))
            if sock.family == socket.AF_INET and sock.getpeername():
                sock.shutdown(socket.SHUT_RDWR)
                return
        except OSError:  # no socket, or one that listens
            pass

def perhaps_die(moment):  # in its first life, where the test says so
    if life > 1:
        return
    for word in sys.argv[2].split():
        rank, step, when = word.split(":")
        if (int(step), when, moment) == (worker.steps, "cut", "forward"):  # all give the engine time to act
            if int(rank) == worker.rank:
                cut_a_connection()
            time.sleep(1.0)
        if (int(rank), int(step)) == (worker.rank, worker.steps) and when == moment:
            die()
        if (int(rank), int(step)) == (worker.rank, worker.steps) and when.startswith("soon") and moment == "forward":
            threading.Timer(float(when[4:]) / 1e3, die).start()
"""

LOOP = f"""
log = os.open(f"{{sys.argv[1]}}/{{worker.rank}}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
life = begin_life(worker.rank)
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
    options.setdefault("on_loss", SHRINK)
    outcome = real(file, NUM_WORKERS, options.pop("strategy"), tmp_path, deaths, how, heard=heard, **options)
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


def check_used_once(tmp_path: Path, outcome: Any) -> None:
    """By the workers' own logs. A worker for which a round has no sample stands in with one of another's, which it is
    given twice, as a single sample is."""
    lines = [
        line.split() for rank in range(NUM_WORKERS) for line in (tmp_path / f"{rank}.txt").read_text().splitlines()
    ]
    used = {(number, row) for number, *rows in lines for row in rows}
    assert len(used) + outcome.num_unused == NUM_EPOCHS * NUM_SAMPLES
    in_batches = Counter((number, row) for number, *rows in lines if len(set(rows)) > 1 for row in rows)
    assert max(in_batches.values()) == 1
