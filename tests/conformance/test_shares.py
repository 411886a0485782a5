"""Every way to share data, with every strategy that can: each sample once an epoch, and the union batch's gradient."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.processes.real import Heard, real
from support.scripts.training_scripts import simulated, write
from support.simulated.recipes import RECIPES, VARIANTS

from weft.config.cluster import load_cluster
from weft.config.registry import strategy
from weft.core.errors import ConfigError
from weft.data.static import global_batches
from weft.engines.simulated.job import Job
from weft.engines.simulated.runner import simulate_dry

NUM_WORKERS, NUM_SAMPLES, BATCH_SIZE, NUM_EPOCHS = 4, 331, 8, 2
SPEEDS = (1.0, 1.0, 2.0, 4.0)
LR = 0.05

CLUSTER = """
[compute]
seconds_per_sample = 1e-3

[links.between]
latency = "20us"
bandwidth = "10Gbit/s"
""" + "".join(f"\n[[hosts]]\ncount = 1\nspeed = {speed}\n" for speed in SPEEDS)

SCRIPT = f"""
import sys, time
import numpy as np
import weft

rng = np.random.default_rng(0)
x = rng.normal(size=({NUM_SAMPLES}, 5))
y = x @ rng.normal(size=5)
w = np.zeros(5)
worker = weft.join(arrays={{"w": w}}, optimizer=weft.SGD(lr={LR}))
worker.tune(lr=({LR / 2}, {LR * 2}))
sample_s = float(sys.argv[2]) / {SPEEDS}[worker.rank]
used = []
for epoch in worker.epochs({NUM_EPOCHS}):
    for rows in worker.share({NUM_SAMPLES}, batch_size={BATCH_SIZE}):
        time.sleep(sample_s * len(rows))
        used.append(np.column_stack([np.full(len(rows), epoch), np.full(len(rows), worker.steps), rows]))
        error = x[rows] @ w - y[rows]
        worker.step({{"w": 2 * x[rows].T @ error / len(rows)}}, loss=float(error @ error))
    worker.report(loss=lambda: float(np.mean((x @ w - y) ** 2)))
np.save(f"{{sys.argv[1]}}/{{worker.rank}}.npy", np.concatenate([np.zeros((0, 3), int), *used]))
worker.save(f"{{sys.argv[1]}}/model.safetensors")
"""


class Ran:
    """What a run left: the samples of each worker as rows of (epoch, step, sample), and its model."""

    def __init__(self, folder: str) -> None:
        self.used = [np.load(f"{folder}/{rank}.npy") for rank in range(NUM_WORKERS)]
        self.model = load_file(f"{folder}/model.safetensors")

    def samples(self, epoch: int) -> list[int]:
        return sorted(int(sample) for used in self.used for when, _, sample in used if when == epoch)

    def steps(self) -> list[int]:
        return [len(np.unique(used[:, 1])) for used in self.used]

    def sizes(self, step: int) -> list[int]:
        """How many samples each worker had in a step."""
        return [int(np.sum(used[:, 1] == step)) for used in self.used]


@cache
def ran(text: str, share: str, is_real: bool, transport: str = "shm") -> Ran:
    """One run for all tests of it; simulated workers are as fast as the real ones sleep."""
    with TemporaryDirectory() as folder:
        script = write(Path(folder), SCRIPT)
        if is_real:
            real(script, NUM_WORKERS, text, folder, "4e-3", share=share, transport=transport)
        else:
            (Path(folder) / "cluster.toml").write_text(CLUSTER)
            cluster = str(Path(folder) / "cluster.toml")
            simulated(script, NUM_WORKERS, text, folder, "0", cluster=cluster, share=share)
        return Ran(folder)


CASES = [
    (recipe, share)
    for recipe in [*RECIPES.values(), *VARIANTS]
    for share in ("proportional", "stealing")
    if recipe != "hogwild"  # its workers share a host; they run for real below
]


@pytest.mark.parametrize(("text", "share"), CASES)
def test_every_strategy_uses_each_sample_once_per_epoch_or_says_before_the_run_that_it_cannot(
    text: str, share: str
) -> None:
    built = strategy(text)
    if built.deals_portions or (share == "stealing" and built.keeps_step):
        with pytest.raises(ConfigError, match="--share"):
            ran(text, share, is_real=False)
        return
    done = ran(text, share, is_real=False)
    for epoch in range(NUM_EPOCHS):
        assert done.samples(epoch) == list(range(NUM_SAMPLES))
    if share == "proportional":
        assert done.steps() == [NUM_EPOCHS * len(global_batches(NUM_SAMPLES, NUM_WORKERS, BATCH_SIZE))] * NUM_WORKERS
    elif text != "quorum":  # which goes on in rounds that most of its workers make
        assert done.steps()[3] > 3 * done.steps()[0]


@pytest.mark.parametrize("share", ["proportional", "stealing"])
def test_the_same_seed_repeats_the_trace_with_and_without_tensors(tmp_path: Path, share: str) -> None:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    cluster = load_cluster(str(tmp_path / "cluster.toml"))
    script = write(tmp_path, SCRIPT)
    text = "asgd" if share == "stealing" else "allreduce"
    job = Job(script, (str(tmp_path), "0"), cluster, NUM_WORKERS, text, share=share)
    traces = {
        simulated(
            script, NUM_WORKERS, text, str(tmp_path), "0", cluster=str(tmp_path / "cluster.toml"), share=share
        ).trace
        for _ in range(2)
    }
    assert traces == {simulate_dry(job).trace}


REAL = [
    ("allreduce", "proportional", "shm"),
    ("allreduce", "proportional", "tcp"),
    ("async_gossip", "proportional", "shm"),
]
REAL += [(text, "stealing", "shm") for text in ("async_gossip", "hogwild", "quorum", "asgd", "downpour", "ensemble")]
REAL += [("easgd(period=4, mode=async)", "stealing", "tcp")]


@pytest.mark.parametrize(("text", "share", "transport"), REAL)
def test_real_workers_use_each_sample_once_per_epoch(text: str, share: str, transport: str) -> None:
    done = ran(text, share, is_real=True, transport=transport)
    for epoch in range(NUM_EPOCHS):
        assert done.samples(epoch) == list(range(NUM_SAMPLES))


@pytest.mark.parametrize(("is_real", "transport"), [(True, "shm"), (True, "tcp"), (False, "shm")])
def test_unequal_parts_give_the_gradient_of_the_union_batch(is_real: bool, transport: str) -> None:
    done = ran("allreduce", "proportional", is_real, transport)
    assert done.sizes(0) == [8, 8, 8, 8]
    assert any(done.sizes(step)[3] > 8 for step in range(8, 20))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_SAMPLES, 5))
    y = x @ rng.normal(size=5)
    w = np.zeros(5)
    for epoch in range(NUM_EPOCHS):
        order = np.arange(NUM_SAMPLES)
        np.random.default_rng([0, epoch]).shuffle(order)
        for start, stop in global_batches(NUM_SAMPLES, NUM_WORKERS, BATCH_SIZE):
            rows = order[start:stop]
            w -= LR * 2 * x[rows].T @ (x[rows] @ w - y[rows]) / len(rows)
    np.testing.assert_allclose(done.model["w"], w, rtol=0, atol=1e-9)
    assert np.abs(w).max() > 0.1


SLEEPS = f"""
import time
import numpy as np
import weft

w = np.zeros(1)
worker = weft.join(arrays={{"w": w}}, optimizer=weft.SGD(lr=0.1))
for rows in worker.share(128 * 24, batch_size=32):
    time.sleep(4e-3 / {SPEEDS}[worker.rank] * len(rows))
    worker.step({{"w": w - 1.0}})
print(len(rows))
"""


def test_real_workers_soon_have_parts_for_which_none_of_them_need_wait_long(tmp_path: Path) -> None:
    heard = Heard()
    real(write(tmp_path, SLEEPS), NUM_WORKERS, "allreduce", heard=heard, share="proportional")
    parts = {rank: int(text) for rank, text, _ in heard.lines}
    assert sum(parts.values()) == 128
    times = [parts[rank] / speed for rank, speed in enumerate(SPEEDS)]
    assert 1 - sum(times) / len(times) / max(times) < 0.15, "even parts: 0.31; a busy machine adds a cost to every step"


@pytest.mark.parametrize(("share", "least", "most"), [("static", 0.3, 0.35), ("proportional", 0.0, 0.1)])
def test_simulated_workers_with_proportional_parts_hardly_wait_for_each_other(
    tmp_path: Path, share: str, least: float, most: float
) -> None:
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    script = write(tmp_path, SCRIPT.replace(f"worker.epochs({NUM_EPOCHS})", "worker.epochs(20)"))
    cluster = load_cluster(str(tmp_path / "cluster.toml"))
    job = Job(script, (str(tmp_path), "0"), cluster, NUM_WORKERS, "allreduce", share=share)
    assert least <= simulate_dry(job).facts.waiting_fraction < most
