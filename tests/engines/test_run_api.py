"""`weft.run` and `weft.simulate`: scripts and functions, from Python."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.errors import ConfigError, NodeLost
from weft.core.seat import sit

TARGET = np.arange(3.0)
SAVES = """
import resource
import numpy as np
import weft

w = np.zeros(10_000)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for epoch in worker.epochs(2):
    for rows in worker.share(8, batch_size=2):
        worker.step({"w": w}, samples=len(rows))
    if epoch == 0:
        worker.save("first")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        worker.save("model")
"""


def train(num_epochs: int, rate: float = 0.5) -> None:
    w = np.zeros(3)
    worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=rate))
    for epoch in worker.epochs(num_epochs):
        for rows in worker.share(8, batch_size=2):
            worker.step({"w": w - TARGET}, samples=len(rows), loss=float(abs(w - TARGET).sum()))
        worker.report(epoch=epoch, distance=lambda: float(abs(w - TARGET).sum()))
    print("trained", num_epochs)
    worker.save("weights.safetensors")


train.__module__ = "__main__"  # as in a notebook: nothing can import it


@pytest.mark.processes
def test_a_function_trains_on_real_workers_and_its_outcome_is_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[str] = []
    outcome = weft.run(train, arguments=(4,), workers=2, strategy="allreduce", show=shown.append)
    assert isinstance(outcome, weft.Outcome)
    assert (outcome.workers, outcome.steps, outcome.samples) == (2, 8, 32.0)
    assert outcome.numbers["distance"] == pytest.approx(3 * 0.5**8)
    assert [report["epoch"] for report in outcome.reports] == [0, 1, 2, 3]
    assert outcome.saved == [Path("weights.safetensors")]
    assert not outcome.was_stopped
    assert sorted(line for line in shown if "trained" in line) == ["worker 0 | trained 4", "worker 1 | trained 4"]
    assert "epoch 4  epoch 3.0000  distance 0.0117" in shown


@pytest.mark.processes
def test_a_file_of_an_earlier_run_is_not_among_the_saved_when_its_save_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").write_bytes(b"old")
    script = tmp_path / "train.py"
    script.write_text(SAVES)
    outcome = weft.run(script, workers=2, strategy="allreduce", show=None)
    (told,) = outcome.figures["not_saved"]
    assert "'model' is NOT saved: File too large." in told
    assert (Path("model").read_bytes(), outcome.saved) == (b"old", [Path("first")])


@pytest.mark.processes
def test_a_script_that_fails_raises_with_the_workers_traceback(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nraise ValueError(f'no {sys.argv[1]}')\n")
    with pytest.raises(NodeLost) as lost:
        weft.run(script, arguments=("data",), workers=1, show=None)
    assert "raised ValueError before it joined: no data\nTraceback (most recent call last):" in str(lost.value)
    assert str(lost.value).endswith("ValueError: no data")


def test_a_function_is_simulated_the_same_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[str] = []
    outcome = weft.simulate(train, arguments=(4,), workers=4, strategy="gossip", cluster="edge", show=shown.append)
    assert (outcome.workers, outcome.strategy, outcome.steps) == (4, "gossip", 4)
    assert shown == ["trained 4"]


@pytest.mark.parametrize("start", [weft.run, weft.simulate])
def test_workers_and_threads_do_not_start_runs(start: Callable[..., Any]) -> None:
    before = sit(object())  # type: ignore[arg-type]
    try:
        with pytest.raises(ConfigError, match=r"was called by a worker of a run\.\n  Call it from a notebook"):
            start("train.py")
    finally:
        sit(before)
    caught: list[BaseException] = []

    def call() -> None:
        try:
            start("train.py")
        except ConfigError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "was called by a thread, but it answers Ctrl-C.\n  Call it in the main thread." in str(caught[0])


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"strategy": "gosip"}, "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        (
            {"strategy": weft.Ensemble()},
            "is no text.\n  Write e.g. strategy='ssp(staleness=3)', or give it to weft.join.",
        ),
        ({"workers": 0}, "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        ({"global_batch": 1, "workers": 2}, "at least 1 sample each.\n  Use --set data.global_batch=2 or more."),
        ({"set": {"data.global_batch": 1}}, "at least 1 sample each.\n  Use --set data.global_batch=2 or more."),
        ({"collective": "rong"}, "collective 'rong' is not known.\n  Did you mean 'ring'?"),
        ({"set": {"worker.device": "7:fake"}}, "names worker 7, but there are 2 workers.\n  Name one from 0 to 1."),
        ({"set": {"write.trace": "a.json"}}, "weft run and weft simulate, not for weft.run.\n  Leave it out."),
        ({"set": {"strategy.staleness": 3}}, "is for the command line.\n  Write strategy='ssp(staleness=3)'."),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(given: dict[str, Any], because: str) -> None:
    with pytest.raises(ConfigError) as refused:
        weft.run(train, **given)
    assert str(refused.value).endswith(because)


def test_importing_weft_does_not_import_what_starts_runs() -> None:
    text = "import sys, weft; weft.join; sys.exit('weft.engines.run_api' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], timeout=60, check=False).returncode == 0
