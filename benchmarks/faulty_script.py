"""A training that announces its moments, in one of which it lets a fault happen: `python benchmarks/soak.py` runs it.

Arguments: the moment, the signal, the rank and the process it is for, and how many seconds later it comes.
"""

import os
import sys
import threading
import time
from pathlib import Path

MOMENT, NUMBER, RANK, VICTIM, LATE_S = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
END_S = 0.3
"""The others end so much later: whoever has ended waits for them."""
WORDS = {"controller": b"weft.controller_main", "host agent": b"weft.engines.hosts.agent"}

_pending: list[threading.Timer] = []


def rank() -> int:
    """This process's, also before it has joined."""
    if "RANK" in os.environ:
        return int(os.environ["RANK"])
    from weft.core.seat import current

    return current().rank


def at(moment: str) -> None:
    """The script has come to a moment of its life."""
    if moment == MOMENT and rank() == RANK:
        _pending.append(threading.Timer(LATE_S, strike, (target(),)))
        _pending[0].start()
        if moment == "import":
            _pending[0].join()
    elif moment == "end" == MOMENT:
        time.sleep(END_S)
    elif moment == "end" and _pending:
        _pending[0].join()


def strike(pid: int) -> None:
    """Let the fault happen, and note when and to whom."""
    Path("struck.new").write_text(f"{time.monotonic()} {pid}")
    os.rename("struck.new", "struck")
    os.kill(pid, NUMBER)


def target() -> int:
    """The process that the fault is for."""
    if VICTIM == "worker":
        return os.getpid()
    if VICTIM == "launcher":
        return os.getppid()
    mark = os.environ["SOAK_MARK"].encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", name)
        if WORDS[VICTIM] in (folder / "cmdline").read_bytes() and mark in (folder / "environ").read_bytes():
            return int(name)
    raise ProcessLookupError(f"there is no {VICTIM}")


def train() -> None:
    """Six steps of next to nothing; with torch where that is there already, with plain arrays elsewhere."""
    at("import")
    import numpy as np

    import weft

    at("join")
    w = np.zeros(5000)
    if "torch" in sys.modules and "RANK" not in os.environ:
        return train_torch()
    worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
    for _ in worker.epochs(1):
        for _ in range(6):
            at({0: "first step", 2: "backward", 4: "update"}.get(worker.steps, ""))
            worker.step({"w": w - worker.rank}, samples=1)
    finish(worker)
    return None


def train_torch() -> None:
    import torch

    import weft

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    worker = weft.join(model, optimizer)
    loader = torch.utils.data.DataLoader(torch.randn(6 * 4 * worker.num_workers, 40), batch_size=4)
    for _ in worker.epochs(1):
        for step, x in enumerate(worker.share(loader)):
            if step == 0:
                at("first step")
            optimizer.zero_grad()
            loss = model(x).square().mean()
            if step == 2:
                at("backward")
            loss.backward()
            if step == 4:
                at("update")
            optimizer.step()
    finish(worker)


def finish(worker: object) -> None:
    """Report, save and end."""
    at("report")
    worker.report(score=lambda: time.sleep(0.005) or 1.0)  # type: ignore[attr-defined]
    at("save")
    worker.save("model.safetensors")  # type: ignore[attr-defined]
    at("end")


train()
