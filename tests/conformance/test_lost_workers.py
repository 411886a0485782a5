"""Real workers that are killed or stopped while the others go on: every sample is used once, and nobody hangs.

Sample i of the scripts moves only the i-th parameter, by the learning rate over the samples of its step. So the
parameters tell how often each sample was used, and in a step of how many.
"""

import os
import signal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pairs import in_turn
from support.processes.real import real
from support.scripts.dying_scripts import (
    ARRAYS,
    NUM_SAMPLES,
    NUM_WORKERS,
    TORCH,
    check_each_once,
    check_used_once,
    moved,
    ran,
)
from support.scripts.training_scripts import write

from weft.config.chaos import KILL, ChaosPlan
from weft.core.errors import ConfigError, NodeLost

HOSTS = (0, 0, 0, 1, 1)
DEATHS = {
    "while it computes": "1:3:forward 3:7:forward 0:20:forward",
    "after a step": "4:2:after 0:3:after 2:8:after",
    "two at once": "1:6:forward 2:6:forward 0:6:after",
    "at any time": "1:3:soon1 3:7:soon2.5 0:11:soon4",
    "at the first step and the last": "2:1:after 1:8:forward 3:26:forward",
}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "arrays": (ARRAYS, {}),
    "torch": (TORCH, {}),
    "tcp": (ARRAYS, {"transport": "tcp"}),
    "ring over shm": (ARRAYS, {"collective": "ring"}),
    "hosts": (ARRAYS, {"hosts": HOSTS}),
}


@pytest.mark.parametrize(
    ("way", "deaths"), [*in_turn(["torch"], DEATHS), *in_turn(["hosts", "tcp", "ring over shm", "arrays"], DEATHS)]
)
def test_every_sample_is_used_once_though_three_of_five_workers_die(way: str, deaths: str, tmp_path: Path) -> None:
    script, options = WAYS[way]
    outcome, heard = ran(tmp_path, script, DEATHS[deaths], **options)
    lost = {int(word.split(":")[0]) for word in DEATHS[deaths].split()}
    left = sorted(set(range(NUM_WORKERS)) - lost)
    assert {loss.worker for loss in outcome.losses} == lost
    assert [status.rank for status in outcome.workers] == left
    for far in moved(tmp_path, left[0]):
        check_each_once(far)
    for worker in left[1:]:
        assert np.array_equal(np.load(tmp_path / f"{worker}.npy"), np.load(tmp_path / f"{left[0]}.npy"))
    assert sum("is lost at step" in text for text in heard.told) == 3
    for loss in outcome.losses:
        assert loss.told_s is not None
        assert loss.committed_s is not None
        assert loss.detected_s <= loss.told_s <= loss.committed_s < loss.detected_s + 1.0


@pytest.mark.parametrize(("strategy", "way"), in_turn(["allreduce", "ssp", "async_gossip"], ["tcp", "hosts"]))
def test_if_a_connection_breaks_between_two_that_live_the_others_go_on_without_one_of_them(
    strategy: str, way: str, tmp_path: Path
) -> None:
    script, options = WAYS[way]
    outcome, heard = ran(tmp_path, script, "1:4:cut", strategy=strategy, **options)
    (loss,) = outcome.losses
    assert loss.cause in {f"its connection to worker {other} broke" for other in range(NUM_WORKERS)}
    assert len(outcome.workers) == NUM_WORKERS - 1
    assert any(f"worker {loss.worker} is lost at step" in text and loss.cause in text for text in heard.told)
    check_used_once(tmp_path, outcome)


OTHERS = ["async_gossip", "local_sgd(period=2)", "asgd", "ensemble"]


@pytest.mark.parametrize(("strategy", "hosts"), [("hogwild", ()), *product(OTHERS, [(), HOSTS])])
def test_what_a_lost_worker_did_not_do_is_done_by_others(strategy: str, hosts: tuple[int, ...], tmp_path: Path) -> None:
    deaths = "1:3:forward 3:5:after 0:9:forward"
    outcome, _ = ran(tmp_path, ARRAYS, deaths, strategy=strategy, hosts=hosts)
    check_used_once(tmp_path, outcome)


@pytest.mark.parametrize("strategy", ["allreduce", "ssp", "gossip", "asgd"])
def test_the_others_go_on_without_all_workers_of_a_host(strategy: str, tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, ARRAYS, "3:4:forward 4:4:forward", strategy=strategy, hosts=HOSTS)
    assert [status.rank for status in outcome.workers] == [0, 1, 2]
    check_used_once(tmp_path, outcome)


@pytest.mark.parametrize("strategy", ["hogwild", "asgd", "allreduce"])
def test_a_worker_that_dies_in_its_very_first_step_is_left_behind(strategy: str, tmp_path: Path) -> None:
    outcome, _ = ran(tmp_path, ARRAYS, "2:0:forward", strategy=strategy)
    assert [(loss.worker, loss.step) for loss in outcome.losses] == [(2, 0)]
    check_used_once(tmp_path, outcome)


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


@pytest.mark.parametrize("rank", [0, 1, NUM_WORKERS - 1])
def test_over_sockets_nobody_waits_until_a_worker_has_connected_that_dies_before(rank: int, tmp_path: Path) -> None:
    early = ARRAYS.replace("def parameters():", f"if worker.rank == {rank}:\n    die()\n\ndef parameters():", 1)
    outcome, _ = ran(tmp_path, early, "", transport="tcp")
    assert [loss.worker for loss in outcome.losses] == [rank]
    for far in moved(tmp_path, 2):
        check_each_once(far)


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
        ({"baseline": "ddp", "strategy": None}, "--baseline ddp"),
    ],
)
def test_what_cannot_go_on_without_a_worker_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"--on-loss shrink does not go with {said} yet"):
        ran(tmp_path, ARRAYS, "", **options)


def test_a_stream_whose_batches_cannot_be_dealt_again_is_refused(tmp_path: Path) -> None:
    script = ARRAYS.replace(f"worker.share({NUM_SAMPLES}, batch_size=8)", "worker.share(iter([np.arange(8)] * 50))")
    with pytest.raises(ConfigError, match=r"--on-loss, or a checkpoint, deals out batches by the places"):
        ran(tmp_path, script, "")


def test_chaos_is_refused_where_the_first_loss_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--chaos would kill workers, and with --on-loss stop the first"):
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
