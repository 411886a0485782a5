"""Real workers that are sent SIGTERM leave after their step: all that they have done counts, and nothing else does."""

import signal
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.pairs import in_turn
from support.processes import real as real_processes
from support.processes.real import Heard, fork_from_here
from support.scripts.dying_scripts import (
    ARRAYS,
    NUM_EPOCHS,
    NUM_SAMPLES,
    NUM_WORKERS,
    TORCH,
    check_each_once,
    check_used_once,
    moved,
    ran,
)

from weft.config.on_loss import REPLACE, SHRINK, STOP
from weft.core.errors import NodeLost
from weft.engines.local.fork_server import FOLLOW_UPS
from weft.engines.local.forked_workers import Process

SLOWLY = ("time.sleep(0.002)", "time.sleep(0.02)")
"""So that newcomers come before the others have ended."""
LEFT = "SIGTERM"


@pytest.fixture(autouse=True, scope="module")
def torch_is_imported() -> None:
    """Workers that are forked from this process begin at once, as those of a fork server do."""
    for name in ("torch", *FOLLOW_UPS["torch"]):
        import_module(name)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """All that are forked, in order."""
    forked: list[Process] = []

    def fork(num_workers: int, shared: Sequence[int], check: Callable[[], None]) -> list[Process]:
        forked.extend(fresh := fork_from_here(num_workers, shared, check))
        return fresh

    monkeypatch.setattr(real_processes, "fork_from_here", fork)
    return forked


def told_before(script: str) -> str:
    """The same script, which writes down a batch before its step: one that leaves does not return from it."""
    line = next(line for line in script.splitlines(keepends=True) if "os.write(log" in line)
    return script.replace(line, "").replace("        step(rows)\n", f"{line}        step(rows)\n")


def check_left(outcome: Any, processes: list[Process], *ranks: int) -> None:
    """These workers have left, and all processes have ended with 0."""
    assert sorted(loss.worker for loss in outcome.losses) == sorted(ranks)
    assert {loss.cause for loss in outcome.losses} == {LEFT}
    assert [process.exit_code for process in processes] == [0] * len(processes)


MOMENTS = {
    "while it computes": "1:3:forward 3:7:forward 0:20:forward",
    "after a step": "4:2:after 0:3:after 2:8:after",
    "two at once": "1:6:forward 2:6:forward 0:6:after",
    "at any time": "1:3:soon1 3:7:soon2.5 0:11:soon4",
}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "arrays": (ARRAYS, {}),
    "torch": (TORCH, {}),
    "tcp": (ARRAYS, {"transport": "tcp"}),
    "ring over shm": (ARRAYS, {"collective": "ring"}),
}


@pytest.mark.parametrize(("way", "moments"), [*in_turn(["torch"], MOMENTS), *in_turn(WAYS, MOMENTS)])
def test_every_sample_is_used_once_though_three_of_five_workers_leave(
    way: str, moments: str, processes: list[Process], tmp_path: Path
) -> None:
    script, options = WAYS[way]
    outcome, heard = ran(tmp_path, script, MOMENTS[moments], "SIGTERM", **options)
    left = {int(word.split(":")[0]) for word in MOMENTS[moments].split()}
    check_left(outcome, processes, *left)
    stayed = sorted(set(range(NUM_WORKERS)) - left)
    for far in moved(tmp_path, stayed[0]):
        check_each_once(far)
    for worker in stayed[1:]:
        assert np.array_equal(np.load(tmp_path / f"{worker}.npy"), np.load(tmp_path / f"{stayed[0]}.npy"))
    assert sum(f", after {LEFT}; " in text for text in heard.told) == 3
    told = outcome.to_json()
    assert told["samples"] == NUM_EPOCHS * NUM_SAMPLES, "those of workers that have left, too"


@pytest.mark.parametrize(
    "strategy",
    ["ssp", "quorum", "downpour", "neighbours", "push_sum", "diloco(period=2)", "easgd(period=2)", "hogwild"],
)
def test_under_strategies_of_each_kind_a_worker_that_leaves_is_replaced(
    strategy: str, processes: list[Process], tmp_path: Path
) -> None:
    script = told_before(ARRAYS).replace(*SLOWLY)
    outcome, _ = ran(tmp_path, script, "1:4:forward", "SIGTERM", on_loss=REPLACE, strategy=strategy)
    check_left(outcome, processes, 1)
    assert outcome.losses[0].replaced_s is not None
    assert len(processes) == NUM_WORKERS + 1
    check_used_once(tmp_path, outcome)


@pytest.mark.parametrize(
    ("strategy", "transport"), in_turn(["asgd", "async_gossip", "local_sgd(period=3)", "push_sum"], ["shm", "tcp"])
)
def test_what_workers_have_sent_arrives_before_they_end(
    strategy: str, transport: str, processes: list[Process], tmp_path: Path
) -> None:
    moments = "1:3:forward 3:5:after 0:9:forward"
    script = told_before(ARRAYS)
    outcome, _ = ran(tmp_path, script, moments, "SIGTERM", strategy=strategy, transport=transport)
    check_left(outcome, processes, 0, 1, 3)
    check_used_once(tmp_path, outcome)


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_every_gradient_that_was_pushed_by_one_that_leaves_is_applied(
    transport: str, processes: list[Process], tmp_path: Path
) -> None:
    """Sample i moves only parameter i. The one server is with worker 0, and the model that is saved is the server's."""
    script = ARRAYS.replace(f"epochs({NUM_EPOCHS})", "epochs(1)") + 'worker.save(f"{sys.argv[1]}/model.safetensors")\n'
    moments = "4:2:forward 3:4:after 2:5:soon1"
    outcome, _ = ran(tmp_path, script, moments, "SIGTERM", strategy="asgd(servers=1)", transport=transport)
    check_left(outcome, processes, 2, 3, 4)
    num_used = (load_file(tmp_path / "model.safetensors")["w"] < 0).sum()
    assert num_used + outcome.num_unused == NUM_SAMPLES


def test_a_worker_that_leaves_while_another_is_replaced(processes: list[Process], tmp_path: Path) -> None:
    script = TORCH.replace(*SLOWLY)
    outcome, _ = ran(tmp_path, script, "1:3:forward 2:5:forward 3:9:after", "SIGTERM", on_loss=REPLACE)
    check_left(outcome, processes, 1, 2, 3)
    assert all(loss.replaced_s is not None for loss in outcome.losses)
    for far in moved(tmp_path, 4):
        check_each_once(far)


def test_if_the_last_one_is_to_leave_the_run_stops_in_order(processes: list[Process], tmp_path: Path) -> None:
    everybody = " ".join(f"{rank}:6:forward" for rank in range(NUM_WORKERS))
    outcome, heard = ran(tmp_path, ARRAYS, everybody, "SIGTERM", on_loss=SHRINK)
    assert outcome.was_stopped
    assert len(outcome.workers) + len(outcome.losses) == NUM_WORKERS
    assert [process.exit_code for process in processes] == [0] * NUM_WORKERS
    assert "stopping after this step; once more to stop now" in heard.told


def test_without_that_option_the_run_ends_as_with_any_signal(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=r"worker 1 .* stopped .*: killed by signal 15 \(SIGTERM\)"):
        ran(tmp_path, ARRAYS, "1:4:forward", "SIGTERM", on_loss=STOP)


def test_a_script_that_handles_the_signal_itself_is_left_alone(tmp_path: Path) -> None:
    script = ARRAYS.replace("\nlog = ", "\nsignal.signal(signal.SIGTERM, lambda number, frame: print('mine'))\nlog = ")
    outcome, heard = ran(tmp_path, script, "1:4:forward", "SIGTERM")
    assert outcome.losses == []
    assert (1, "mine", False) in heard.lines


CHILD = """
if worker.rank == 1:
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(3)
    os.kill(pid, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_processes_that_a_script_forks_end_by_the_signal(tmp_path: Path) -> None:
    heard: Heard
    script = ARRAYS.replace("    epochs.append(", f"    if epoch == 1:\n        exec({CHILD!r})\n    epochs.append(")
    _, heard = ran(tmp_path, script, "")
    assert (1, str(-signal.SIGTERM), False) in heard.lines
