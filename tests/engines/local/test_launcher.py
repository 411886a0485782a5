"""Real workers from their start to their end: whatever ends a run, it ends soon, says why, and nothing is left."""

import os
import re
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.processes.launches import FOREVER, MORTAL_FOREVER, TRAIN, launched
from support.processes.real import Heard, real

from weft.core.errors import ConfigError, Deadlock, NodeLost
from weft.engines.real import timeouts
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.runtime.measure import metrics
from weft.runtime.seats import engine_seat

NUM_WORKERS = 3
BAR_S = 2.0
"""After this time all workers of a failed run have ended, and nothing is left."""
LEAVE_S = 5.0

AT_STEP = "        if worker.steps == 20:"


def script(folder: Path, *pieces: str) -> Path:
    path = folder / "train.py"
    path.write_text("".join(pieces))
    return path


def at_step_20(folder: Path, what: str, rank: int = 1) -> Path:
    """A training in which one worker does this when it has made 20 steps."""
    return script(
        folder,
        TRAIN,
        FOREVER.replace(AT_STEP, f"        if worker.steps == 20 and worker.rank == {rank}: {what}\n{AT_STEP}"),
    )


def test_a_run_too_short_to_tell_how_it_does_tells_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "TELL_EVERY_S", 60.0)
    monkeypatch.setattr(engine_seat, "HEARTBEAT_TICKS", 1_000_000)
    train = 'for rows in worker.share(24, batch_size=2):\n    worker.step({"w": w - rows.mean()})\n'
    heard = Heard()
    real(script(tmp_path, TRAIN, train), NUM_WORKERS, "gossip", heard=heard)
    told = sorted((status.rank, status.step, status.doing) for status in heard.statuses)
    assert told == [(rank, 4, "has ended") for rank in range(NUM_WORKERS)]


@pytest.mark.parametrize(
    ("seed", "strategy", "transport"),
    [
        (1, "allreduce", "shm"),
        (2, "allreduce", "tcp"),
        (3, "gossip", "shm"),
        (4, "ssp", "tcp"),
        (5, "allreduce", "torch"),
    ],
)
def test_a_killed_worker_ends_the_run_within_two_seconds_and_is_named_and_nothing_is_left(
    seed: int, strategy: str, transport: str, tmp_path: Path
) -> None:
    rng = Random(seed)
    rank, age_s = rng.randrange(NUM_WORKERS), rng.uniform(0.0, 0.3)
    options = ("-n", NUM_WORKERS, "--strategy", strategy, "--transport", transport, "--on-loss", "stop")
    with launched(script(tmp_path, MORTAL_FOREVER), *options, "--", rank, age_s) as run:
        assert run.end() == 1
        assert run.took_s < BAR_S
        assert run.leftovers(0.0) == set()
        assert f"NodeLost: worker {rank} (host " in run.text
        assert "killed by signal 9 (SIGKILL)" in run.text
        assert "Traceback" not in run.text


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_killed_worker_is_reported_with_who_waited_for_what(transport: str, tmp_path: Path) -> None:
    # it lingers before it dies: the others, whose steps take a millisecond, are waiting for it by then
    path = at_step_20(tmp_path, "time.sleep(0.5), os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(NodeLost) as raised:
        real(path, NUM_WORKERS, "allreduce", transport=transport)
    name, *waiting, advice = str(raised.value).splitlines()
    assert name.startswith("worker 1 (host ")
    assert name.endswith("killed by signal 9 (SIGKILL).")
    # whoever is given the sum last may still be on its way out of the step before
    told = [re.fullmatch(r"  Worker (\d) was at step (19|20), waiting for .*", line) for line in waiting]
    assert [match and match[1] for match in told] == ["0", "2"]
    assert "worker 1" in "".join(waiting)
    assert "memory may have run out" in advice


def test_the_traceback_of_a_script_that_raises_is_the_last_thing_on_the_screen(tmp_path: Path) -> None:
    path = at_step_20(tmp_path, "raise ValueError('no luck')")
    with launched(path, "-n", NUM_WORKERS) as run:
        run.until("joined", NUM_WORKERS)
        assert run.end() == 1
        assert run.leftovers(0.0) == set()
    assert run.out[-1] == "ValueError: no luck"
    told = run.text[run.text.index("NodeLost: ") :]
    assert told.startswith("NodeLost: worker 1 (host ")
    assert "raised ValueError at step 20: no luck" in told
    assert told.count("waiting for the reduction of gradient[0] at step 20 (worker 1).") == 2
    assert f'File "{path}", line' in told
    assert "/weft/" not in told.partition("Traceback")[2]


def test_a_script_that_leaves_with_an_exit_code_of_its_own_has_failed(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=r"worker 2 .* the script called sys.exit\(4\)"):
        real(at_step_20(tmp_path, "sys.exit(4)", rank=2), NUM_WORKERS)


LOADS = """
import os
import torch
import weft
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(60_000, 4), torch.zeros(60_000, 3)), batch_size=2, num_workers=1)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worker = weft.join(model, optimizer)
for epoch in worker.epochs(10_000):
    for inputs, wanted in worker.share(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
        if worker.steps == 2:
            os.write(1, b"trains\\n")
"""


def test_a_killed_launcher_leaves_nothing_not_even_processes_that_load_data(tmp_path: Path) -> None:
    with launched(script(tmp_path, LOADS), "-n", 2) as run:
        run.until("trains", 2)
        assert len(run.processes()) >= 5  # the launcher, two workers and what loads their data
        run.signal(signal.SIGKILL)
        run.process.wait()
        assert run.leftovers(BAR_S) == set()


@pytest.mark.parametrize("starting", ["import os; os.write(1, b'born\\n')\nwhile True: pass\n", TRAIN + FOREVER])
def test_a_launcher_killed_while_workers_start_or_train_leaves_nothing(starting: str, tmp_path: Path) -> None:
    with launched(script(tmp_path, starting), "-n", NUM_WORKERS, "--transport", "tcp") as run:
        run.until("trains" if "trains" in starting else "born", NUM_WORKERS)
        run.signal(signal.SIGKILL)
        run.process.wait()
        assert run.leftovers(BAR_S) == set()


@pytest.mark.parametrize(
    ("number", "options"), [(signal.SIGINT, ()), (signal.SIGTERM, ("--transport", "tcp")), (signal.SIGINT, ("-n", 1))]
)
def test_one_interrupt_lets_all_workers_finish_the_same_step(
    number: int, options: tuple[object, ...], tmp_path: Path
) -> None:
    with launched(script(tmp_path, TRAIN, FOREVER), "-n", NUM_WORKERS, *options) as run:
        run.until("trains", 1 if options == ("-n", 1) else NUM_WORKERS)
        since = run.signal(number)
        assert run.end() == 0
        assert run.seconds_since(since) < LEAVE_S
        assert run.leftovers(0.0) == set()
    left = [line.partition("left at ")[2] for line in run.out if "left at" in line]
    assert len(left) == (1 if options == ("-n", 1) else NUM_WORKERS)
    assert len(set(left)) == 1
    assert "stopping after this step; once more to stop now" in run.text


BUSY = """        until = time.thread_time() + 0.002
        while time.thread_time() < until: pass
        worker.step"""


@pytest.mark.clock
@pytest.mark.parametrize(
    "strategy",
    [
        *("downpour", "async_gossip", "ssp(staleness=None)"),
        *("sandblaster", "sandblaster(backups=False)"),
    ],
)
def test_nobody_waits_for_a_worker_far_behind_when_a_run_without_waiting_is_interrupted(
    strategy: str, tmp_path: Path
) -> None:
    path = script(tmp_path, TRAIN, FOREVER.replace("        worker.step", BUSY).replace("steps == 20", "steps == 50"))
    with launched(path, "-n", NUM_WORKERS, "--strategy", strategy, "--slow", "0:100") as run:
        run.until("trains", NUM_WORKERS - 1)
        since = run.signal(signal.SIGINT)
        assert run.end() == 0
        assert run.seconds_since(since) < 5 * BAR_S  # busy workers share the cores; what was waited for is seen below
    left = {line.partition(" |")[0]: int(line.rpartition(" ")[2]) for line in run.out if "left at" in line}
    assert left["worker 0"] < 25 < 50 <= min(left["worker 1"], left["worker 2"])


def test_a_second_interrupt_ends_the_run_at_once(tmp_path: Path) -> None:
    stubborn = FOREVER.replace(AT_STEP, f"        while worker.steps == 21: pass\n{AT_STEP}")
    with launched(script(tmp_path, TRAIN, stubborn), "-n", NUM_WORKERS) as run:
        run.until("trains", NUM_WORKERS)
        run.signal(signal.SIGINT)
        run.until("stopping after this step")
        since = run.signal(signal.SIGINT)
        assert run.end() == 130
        assert run.seconds_since(since) < BAR_S
        assert run.leftovers(0.0) == set()


def test_an_interrupt_before_all_have_joined_ends_the_run_at_once(tmp_path: Path) -> None:
    with launched(script(tmp_path, "import os; os.write(1, b'born\\n')\nwhile True: pass\n"), "-n", 2) as run:
        run.until("born", 2)
        since = run.signal(signal.SIGINT)
        assert run.end() == 130
        assert run.seconds_since(since) < BAR_S
        assert run.leftovers(0.0) == set()


def test_an_interrupt_while_workers_are_born_ends_the_run_at_once(tmp_path: Path) -> None:
    with launched(script(tmp_path, TRAIN, FOREVER), "-n", 2) as run:
        run.until_processes(2)  # the launcher and its fork server, which imports what the script needs
        since = run.signal(signal.SIGINT)
        assert run.end() == 130
        assert run.seconds_since(since) < BAR_S
        assert run.leftovers(0.0) == set()


def test_a_script_that_ends_early_on_one_worker_is_a_deadlock_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(Deadlock) as raised:
        real(at_step_20(tmp_path, "sys.exit()"), NUM_WORKERS)
    told = str(raised.value)
    assert "the reduction of gradient[0] at clock 20 waits for worker 1, whose script has ended." in told
    assert "Let every worker make the same number of steps" in told


@pytest.mark.parametrize("options", [{"transport": "tcp"}, {"strategy": "gossip"}])
def test_a_script_that_ends_early_is_noticed_where_workers_wait_for_messages_too(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "ALL_WAIT_S", 0.3)
    with pytest.raises(Deadlock) as raised:
        real(at_step_20(tmp_path, "sys.exit()"), NUM_WORKERS, **options)
    told = str(raised.value)
    assert "nothing can happen any more: every worker that has not ended waits." in told
    assert re.search(r"(from |for |\()worker 1\b", told.split("ended:")[0])
    assert re.search(r"\n  ended: worker 1 \(host .+, pid \d+\)\n", told)


LONG = """
if worker.rank == 0:
    time.sleep(0.2)
for rows in worker.share(12, batch_size=2):
    worker.step({"w": w})
    time.sleep(0.8)
worker.report(score=lambda: time.sleep(0.8) or 1.0)
"""


def test_a_long_iteration_or_evaluation_after_a_wait_is_no_deadlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "ALL_WAIT_S", 0.3)
    monkeypatch.setattr(engine_seat, "HEARTBEAT_TICKS", 1)
    outcome = real(script(tmp_path, TRAIN, LONG), NUM_WORKERS)
    assert [status.step for status in outcome.workers] == [2, 2, 2]


def test_workers_whose_models_differ_are_refused(tmp_path: Path) -> None:
    path = script(tmp_path, HEAD_WITH_RANK, "w = np.zeros(50 + rank // 2)\n", JOIN_ONLY)
    with pytest.raises(ConfigError) as raised:
        real(path, NUM_WORKERS)
    assert str(raised.value) == (
        "worker 2 joined with 'w (51,) float64' where worker 0 has 'w (50,) float64'.\n"
        "  Build the same model on every worker."
    )


HEAD_WITH_RANK = "import numpy as np\nimport weft\nfrom weft.core.seat import current\nrank = current().rank\n"
JOIN_ONLY = "worker = weft.join(arrays={'w': w}, optimizer=weft.SGD(lr=0.1))\n"


@pytest.mark.parametrize(
    ("pieces", "because"),
    [
        (("print('hello')\n",), "' ended without calling weft.join.\n  Add worker = weft.join(model, optimizer) "),
        ((TRAIN,), "' joined but never stepped.\n  Call optimizer.step() "),
        ((TRAIN, JOIN_ONLY), "weft.join was called twice with arrays.\n  Join once, "),
        ((TRAIN, "next(worker.share(2, batch_size=1))\n"), "there are 2 samples for 3 workers, and each needs "),
    ],
)
def test_a_script_that_cannot_be_shared_is_refused(pieces: tuple[str, ...], because: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        real(script(tmp_path, *pieces), NUM_WORKERS)
    assert because in str(raised.value)


def test_a_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    with pytest.raises(NodeLost) as raised:
        real(script(tmp_path, "def f(:\n"), NUM_WORKERS)
    assert raised.value.traceback.endswith("    def f(:\n          ^\nSyntaxError: invalid syntax")


def test_what_a_script_writes_is_heard_line_by_line_with_its_worker(tmp_path: Path) -> None:
    heard = Heard()
    writes = (
        "\nprint('out', worker.rank)\nprint('error', worker.rank, file=sys.stderr)\nworker.step({'w': w}, samples=1)\n"
    )
    real(script(tmp_path, TRAIN, writes), 2, heard=heard)
    assert sorted(heard.lines) == [(0, "error 0", True), (0, "out 0", False), (1, "error 1", True), (1, "out 1", False)]


def test_a_run_leaves_no_descriptor_open(tmp_path: Path) -> None:
    path = script(tmp_path, TRAIN, "worker.step({'w': w}, samples=1)\n")
    real(path, 2)
    before = len(os.listdir("/proc/self/fd"))
    real(path, 2, transport="tcp")
    with pytest.raises(NodeLost):
        real(script(tmp_path, TRAIN, "raise ValueError\n"), 2)
    assert len(os.listdir("/proc/self/fd")) == before


def test_jobs_that_cannot_run_are_refused_before_anything_starts(tmp_path: Path) -> None:
    path = script(tmp_path, TRAIN)
    for options, because in (
        ({"num_workers": 0}, "-n is 0"),
        ({"transport": "tpc"}, "transport 'tpc' is not known.\n  Did you mean 'tcp'?"),
        ({"baseline": "dpp"}, "baseline 'dpp' is not known.\n  Did you mean 'ddp'?"),
        ({"global_batch": 1}, "data.global_batch is 1, but 2 workers need at least 1 sample each."),
        ({"slow": {9: 2.0}}, "--slow 9:2 wants a worker from 0 to 1 and a factor of at least 1."),
        ({"slow": {0: 0.5}}, "--slow 0:0.5 wants a worker from 0 to 1 and a factor of at least 1."),
        ({"strategy": "gosip"}, "strategy 'gosip' is not known."),
    ):
        with pytest.raises(ConfigError) as raised:
            RealJob(script=path, **options)
        assert str(raised.value).startswith(because)


UNDER_DDP = """
import torch
import weft

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
worker = weft.join(model, optimizer)
for step in range(100_000):
    worker.count(1)
    optimizer.zero_grad()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    if step == 20:
        worker.report(step=step)
"""


def test_a_baseline_ends_at_once_when_it_is_interrupted_for_its_workers_cannot_leave_together(tmp_path: Path) -> None:
    class Interrupting(Heard):
        def observer(self) -> Observer:
            return Observer(
                on_report=lambda epoch, numbers: os.kill(os.getpid(), signal.SIGINT), on_tell=self.told.append
            )

    heard = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        real(script(tmp_path, UNDER_DDP), 2, baseline="ddp", heard=heard)
    assert heard.told == ["stopped at once; what was not saved is lost"]


def test_a_baseline_whose_forward_the_script_goes_around_is_refused(tmp_path: Path) -> None:
    around = "torch.nn.functional.linear(torch.full((1, 1), worker.rank + 1.0), model.weight, model.bias)"
    text = UNDER_DDP.replace("model(torch.ones(1, 1))", around)
    with pytest.raises(ConfigError, match=r"--baseline ddp: step 1 of worker \d was made on gradients that"):
        real(script(tmp_path, text), 2, baseline="ddp")
