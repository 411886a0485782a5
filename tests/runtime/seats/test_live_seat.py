"""The seat of a real worker: what its script sees, when it goes on, and how it ends."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.processes.real import Heard, real

from weft.core.errors import ConfigError
from weft.core.script_state import IN_BACKWARD, IN_SHARE, REPORT, RUNNING, ScriptState, refusal
from weft.runtime.driver import Wanted
from weft.runtime.messages import LeaveAt
from weft.runtime.seats.live_seat import LiveSeat

NUM_WORKERS = 3


@pytest.mark.parametrize(("waits", "steps_max"), [(True, 7), (False, 8)])
def test_a_portion_that_was_dealt_is_computed_although_the_run_is_told_to_end(waits: bool, steps_max: int) -> None:
    """It may be dealt in the very turn in which the engine says that all leave: the script still stands in IN_SHARE."""
    seat: Any = object.__new__(LiveSeat)
    seat._step, seat._num_shares, seat.steps_max, seat._pauses_at_step = 7, 1, None, False
    seat.script = ScriptState(IN_SHARE)
    worker = SimpleNamespace(wanted=Wanted() if waits else None)
    seat._runtime = seat._awaited = SimpleNamespace(worker=worker, keeps_step=False)
    seat._hear(LeaveAt(9))
    assert seat.steps_max == steps_max


CONTROLLER = """
import time
import numpy as np
import weft
from weft.core.seat import current

rank = current().rank
w = np.full(4, float(rank))
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
"""


def lines(folder: Path, body: str, strategy: str = "allreduce", **options: Any) -> list[tuple[int, str]]:
    """What the workers printed, by rank."""
    (folder / "train.py").write_text(CONTROLLER + body)
    heard = Heard()
    real(folder / "train.py", NUM_WORKERS, strategy, heard=heard, **options)
    return sorted((rank, text) for rank, text, _ in heard.lines)


def test_all_begin_with_the_values_of_worker_zero(tmp_path: Path) -> None:
    body = "print(w.tolist())\nworker.step({'w': w}, samples=1)\n"
    assert lines(tmp_path, body) == [(rank, "[0.0, 0.0, 0.0, 0.0]") for rank in range(NUM_WORKERS)]


READS = """
torn = 0
model = worker._replica.views()["w"]
for epoch in worker.epochs(1):
    for rows in worker.share(240, batch_size=2):
        before = model.copy()
        until = time.monotonic() + 0.001 * (1 + rank)
        while time.monotonic() < until:
            torn += not np.array_equal(model, before)
        worker.step({"w": before - rows.mean()})
print("torn", torn)
"""


@pytest.mark.parametrize("strategy", ["async_gossip", "ssp(staleness=None)", "gossip", "allreduce"])
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_the_parameters_stay_as_they_are_while_the_iteration_that_reads_them_runs(
    strategy: str, transport: str, tmp_path: Path
) -> None:
    told = lines(tmp_path, READS, strategy, transport=transport)
    assert told == [(rank, "torn 0") for rank in range(NUM_WORKERS)]


def test_a_loop_of_the_scripts_own_ends_with_the_run(tmp_path: Path) -> None:
    body = "try:\n    while True: worker.step({'w': w}, samples=1)\nfinally:\n    print(worker.steps)\n"
    assert lines(tmp_path, body, steps_max=5) == [(rank, "5") for rank in range(NUM_WORKERS)]


SCORES = """
worker.step({"w": np.full(4, float(rank))}, samples=1)
mine = w.copy()
worker.report(score=lambda: print("scores", w.tolist()) or 1.0)
print("own", np.array_equal(w, mine))
"""


def test_a_callable_sees_the_result_and_the_worker_gets_its_own_values_back(tmp_path: Path) -> None:
    told = [text for _, text in lines(tmp_path, SCORES, "local_sgd(period=5)")]
    assert [text for text in told if text.startswith("own")] == ["own True"] * NUM_WORKERS
    (scored,) = [text for text in told if text.startswith("scores")]
    assert scored.startswith("scores [-0.1000000000")  # the mean of 0, -0.1 and -0.2


def test_a_report_says_how_far_the_replicas_were_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONTROLLER + SCORES)
    for strategy, expected in [("local_sgd(period=5)", (2 / 3) ** 0.5), ("allreduce", 0.0)]:
        (report,) = real(tmp_path / "train.py", NUM_WORKERS, strategy).reports
        assert report["consensus"] == pytest.approx(expected), "0, -0.1 and -0.2 are so far from their mean, -0.1"


def test_every_update_that_a_server_made_has_an_age(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONTROLLER + READS)
    told = real(tmp_path / "train.py", NUM_WORKERS, "ssp(staleness=2)").to_json()["staleness_histogram"]
    assert sum(told.values()) == 120, "one for each step of each worker: there is one bucket"
    assert set(told) <= {"0", "1", "2"}


@pytest.mark.clock
def test_hiccups_make_a_share_of_all_iterations_longer(tmp_path: Path) -> None:
    busy = READS.replace("0.001 * (1 + rank)", "0.001").replace("240", "60")
    (tmp_path / "train.py").write_text(CONTROLLER + busy)
    plain, often, always = (
        max(worker.time_s for worker in real(tmp_path / "train.py", 2, "ensemble", hiccups=hiccups).workers)
        for hiccups in ((0.0, 1.0), (0.5, 40.0), (1.0, 40.0))
    )
    assert plain < often < always


def test_slow_workers_do_not_hold_up_those_that_never_wait(tmp_path: Path) -> None:
    busy = READS.replace("0.001 * (1 + rank)", "0.001").replace("240", "60")
    (tmp_path / "train.py").write_text(CONTROLLER + busy + "print('seconds', time.monotonic())\n")
    outcome = real(tmp_path / "train.py", NUM_WORKERS, "async_gossip", slow={0: 20.0})
    slow, *others = outcome.workers
    assert all(other.waiting_s < 0.5 * slow.time_s for other in others)
    assert slow.time_s > 10 * 0.001 * 20


BUSY = """
for epoch in worker.epochs(3):
    for rows in worker.share(120, batch_size=2):
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        worker.step({"w": w - rows.mean()})
    worker.report(epoch=epoch)
print("epochs", epoch + 1)
"""


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_slow_worker_takes_fewer_portions_and_all_go_through_every_epoch(transport: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONTROLLER + BUSY)
    heard = Heard()
    outcome = real(tmp_path / "train.py", NUM_WORKERS, "sandblaster", heard=heard, slow={0: 60.0}, transport=transport)
    slow, *others = [status.step for status in outcome.workers]
    assert slow < 0.5 * min(others)
    assert slow + sum(others) >= 3 * 60
    assert sorted(text for _, text, _ in heard.lines) == ["epochs 3"] * NUM_WORKERS
    assert [numbers["epoch"] for _, numbers in heard.reports] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("strategy", "options"), [("sandblaster(backups=False)", {}), ("asgd", {"share": "stealing"})])
def test_a_worker_that_is_never_handed_a_portion_ends_well(
    strategy: str, options: dict[str, str], tmp_path: Path
) -> None:
    body = """
for epoch in worker.epochs(2):
    for rows in worker.share(2, batch_size=2):
        worker.step({"w": w - rows.mean()})
    worker.report(epoch=epoch)
print("ended")
"""
    assert [text for _, text in lines(tmp_path, body, strategy, **options)] == ["ended"] * NUM_WORKERS


def test_a_run_of_few_steps_ends_shares_whose_portions_are_handed_out(tmp_path: Path) -> None:
    body = "for rows in worker.share(600, batch_size=2):\n    worker.step({'w': w})\nprint(worker.steps)\n"
    assert lines(tmp_path, body, "sandblaster", steps_max=5) == [(rank, "5") for rank in range(NUM_WORKERS)]


def test_a_run_of_few_steps_ends_shares_that_are_stolen(tmp_path: Path) -> None:
    body = "for rows in worker.share(600, batch_size=2):\n    worker.step({'w': w})\nprint(worker.steps)\n"
    assert lines(tmp_path, body, "asgd", steps_max=5, share="stealing") == [(rank, "5") for rank in range(NUM_WORKERS)]


def test_a_strategy_of_the_scripts_own_is_checked_against_the_shares_when_it_joins(tmp_path: Path) -> None:
    controller = CONTROLLER.replace("worker = weft", "class Mine(weft.AllReduce):\n    pass\n\nworker = weft")
    (tmp_path / "train.py").write_text(controller.replace("lr=0.1)", "lr=0.1), strategy=Mine()"))
    with pytest.raises(ConfigError, match="the workers of 'Mine' wait for each other's steps"):
        real(tmp_path / "train.py", NUM_WORKERS, share="stealing")


def test_batches_of_the_workers_own_are_brought_to_every_pass(tmp_path: Path) -> None:
    body = "for step in range(4):\n    worker.step({'w': w - rank}, samples=1)\nprint(round(float(w[0]), 6))\n"
    assert lines(tmp_path, body, "sandblaster") == [(rank, "1.0") for rank in range(NUM_WORKERS)]


THREADS = """
import pathlib
import threading
from weft.core.script_state import IN_BACKWARD

folder, seat = pathlib.Path(__file__).parent, current()

def until(holds):
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.001)

def report():
    until(lambda: seat.script.at is IN_BACKWARD)
    try:
        worker.report(a=1.0)
    except weft.IllegalCall as error:
        print(str(error).replace(chr(10), "|"))
    (folder / "reported").touch()

if rank == 0:
    thread = threading.Thread(target=report)
    thread.start()
else:
    until((folder / "reported").exists)
worker.step({"w": w}, samples=1)
worker.report(b=1.0)
print("goes on")
"""


def test_a_second_thread_that_calls_while_the_first_waits_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    said = str(refusal(IN_BACKWARD, REPORT)).replace("\n", "|")
    assert lines(tmp_path, THREADS) == [
        (0, "goes on"),
        (0, said),
        *((rank, "goes on") for rank in range(1, NUM_WORKERS)),
    ]


CATCHES = """
worker.step({"w": w}, samples=1)
try:
    worker.save("nowhere/model.safetensors")
except weft.CheckpointError:
    pass
try:
    worker.report(a=lambda: 1 / 0, b=1.0)
except ZeroDivisionError:
    print("caught")
worker.step({"w": w}, samples=1)
print(current().script.at)
"""


def test_a_script_that_catches_the_error_of_a_call_goes_on(tmp_path: Path) -> None:
    told = lines(tmp_path, CATCHES)
    assert [text for _, text in told if text != "caught"] == [RUNNING] * NUM_WORKERS
    assert len(told) == NUM_WORKERS + 1, "one worker runs what was reported"


LEAVES = """
import pathlib
import time
import numpy as np
import weft

w = np.zeros(5_000_000, np.float32)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
worker.step({"w": w}, samples=1)
folder, until = pathlib.Path(__file__).parent, time.monotonic() + 20
(folder / f"stepped.{worker.rank}").touch()
while len(list(folder.glob("stepped.*"))) < 3 and time.monotonic() < until:
    time.sleep(0.01)
print("all have stepped", time.monotonic() < until)
"""


def test_what_a_leader_sends_last_leaves_while_its_script_computes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LEAVES)
    heard = Heard()
    real(tmp_path / "train.py", 3, "allreduce", heard=heard, hosts=(0, 1, 2))
    assert [text for _, text, _ in heard.lines] == ["all have stepped True"] * 3


def test_once_a_portion_was_dealt_it_is_too_late_to_tune(tmp_path: Path) -> None:
    body = "for rows in worker.share(24, batch_size=2):\n    worker.tune(lr=(0.01, 1.0))\n"
    with pytest.raises(ConfigError, match=r"^worker\.tune was called after training had begun\."):
        lines(tmp_path, body, "sandblaster")
