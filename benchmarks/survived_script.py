"""A training whose workers are killed in moments that it announces, while the others go on: `make soak` runs it.

Arguments: `torch` or `arrays`; `replace` or `shrink`; then each kill as
`moment:rank:life:epoch:late_s`, where `life` is the number of the process with that rank that has begun the script.
Each process logs the samples that it takes (`taken`) and those whose step has returned (`committed`), in a file of its
own: `RANK.LIFE.log`.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

NUM_SAMPLES, NUM_EPOCHS, BATCH_SIZE = 163, 3, 4
BATCHES = {"first step": 0, "backward": 2, "update": 3}
"""In which batch of its epoch a kill comes."""
CHECKPOINT_STEPS = 2
"""A checkpoint is due after so many steps, if there is a plan of them."""
STEP_S, BEHIND_S, LAST_EPOCH_BEHIND_S = 0.005, 0.05, 0.25
"""How long a step takes; and while a newcomer is to come, so that it comes before the scripts have ended."""
LR_RANGE = (0.5, 2.0)
"""What a population tries; elsewhere the learning rate stays as it is."""
END_S, AWAITED_S = 0.3, 5.0
"""The others end so much later than a worker that is killed at its end, for which they wait at most so long."""


def kills() -> list[tuple[str, int, int, int, float]]:
    words = [word.split(":") for word in sys.argv[3:]]
    return [(moment, int(rank), int(life), int(epoch), float(late_s)) for moment, rank, life, epoch, late_s in words]


def begin_life(rank: int) -> int:
    """How many processes have begun this script with this rank, this one included."""
    with open(f"{rank}.lives", "a") as file:
        file.write("x")
        return file.tell()


def at(moment: str, epoch: int = 0) -> None:
    """The script has come to a moment of its life."""
    for number, (wanted, rank, life, wanted_epoch, late_s) in enumerate(KILLS):
        if (wanted, rank, life, wanted_epoch) == (moment, RANK, LIFE, epoch) and not os.path.exists(f"struck.{number}"):
            timer = threading.Timer(late_s, strike, (number,))
            timer.start()
            if moment == "import":
                timer.join()
        elif moment == "end" == wanted:
            wait_for(f"struck.{number}")
            time.sleep(END_S)


def wait_for(path: str) -> None:
    """Wait until there is this file, for at most AWAITED_S."""
    deadline = time.monotonic() + AWAITED_S
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(STEP_S)


def strike(number: int) -> None:
    """Note that this process is killed, and kill it."""
    Path(f"struck.{number}").write_text(f"{time.monotonic()} {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)


def pace(epoch: int) -> None:
    """A step's work; slower while a worker that was killed has no successor that trains."""
    is_behind = sys.argv[2] == "replace" and any(
        os.path.exists(f"struck.{number}") and not os.path.exists(f"{rank}.{life + 1}.trains")
        for number, (moment, rank, life, _, _) in enumerate(KILLS)
        if moment != "end"
    )
    time.sleep((LAST_EPOCH_BEHIND_S if epoch == NUM_EPOCHS - 1 else BEHIND_S) if is_behind else STEP_S)


class OfArrays:
    """Sample i moves only parameter i, by the learning rate over the samples of its step."""

    def __init__(self) -> None:
        import numpy as np

        import weft

        self.parameters = np.zeros(NUM_SAMPLES)
        self.worker = weft.join(arrays={"w": self.parameters}, optimizer=weft.SGD(lr=1.0))
        self.worker.tune(lr=LR_RANGE)

    def batches(self) -> Any:
        return self.worker.share(NUM_SAMPLES, batch_size=BATCH_SIZE)

    def step(self, rows: Any, epoch: int, place: int) -> None:
        import numpy as np

        gradient = np.zeros(NUM_SAMPLES)
        gradient[rows] = 1 / len(rows)
        if place in (BATCHES["backward"], BATCHES["update"]):
            at("backward" if place == BATCHES["backward"] else "update", epoch)
        self.worker.step({"w": gradient})


class OfTorch:
    """The same, as an embedding of one number for each sample."""

    def __init__(self) -> None:
        import torch

        import weft

        torch.set_num_threads(1)
        self._model = torch.nn.Embedding(NUM_SAMPLES, 1, dtype=torch.float64)
        torch.nn.init.zeros_(self._model.weight)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1.0)
        dataset = torch.utils.data.TensorDataset(torch.arange(NUM_SAMPLES))
        self._loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
        self.worker = weft.join(self._model, self._optimizer)
        self.worker.tune(lr=LR_RANGE)

    @property
    def parameters(self) -> Any:
        return self._model.weight.detach().numpy().reshape(-1)

    def batches(self) -> Any:
        return (rows.numpy() for (rows,) in self.worker.share(self._loader))

    def step(self, rows: Any, epoch: int, place: int) -> None:
        import torch

        self._optimizer.zero_grad()
        loss = self._model(torch.from_numpy(rows)).mean()
        if place == BATCHES["backward"]:
            at("backward", epoch)
        loss.backward()
        if place == BATCHES["update"]:
            at("update", epoch)
        self._optimizer.step()


def train() -> None:
    """Three epochs; each ends with a report and a save."""
    at("import")
    import numpy as np

    at("join")
    training = OfTorch() if sys.argv[1] == "torch" else OfArrays()
    worker = training.worker
    log = os.open(f"{RANK}.{LIFE}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    epochs, has_begun = [training.parameters.copy()], False
    for epoch in worker.epochs(NUM_EPOCHS):
        for place, rows in enumerate(training.batches()):
            if not has_begun:
                Path(f"{RANK}.{LIFE}.trains").touch()
                at("first step")
            has_begun = True
            text = f"{epoch} {' '.join(map(str, rows))}\n"
            os.write(log, f"taken {text}".encode())
            pace(epoch)
            training.step(rows, epoch, place)
            os.write(log, f"committed {text}".encode())
            if worker.steps % CHECKPOINT_STEPS == 0:
                at("checkpoint", epoch)
        epochs.append(training.parameters.copy())
        at("report", epoch)
        worker.report(moved=lambda: time.sleep(0.005) or float(-training.parameters.sum()))
        at("save", epoch)
        worker.save("model.safetensors")
    np.save(f"{RANK}.{LIFE}.npy", np.stack(epochs))
    at("end")


if __name__ == "__main__":
    from weft.core.seat import current

    KILLS, RANK = kills(), current().rank
    LIFE = begin_life(RANK)
    train()
