"""Real workers that are killed and replaced: newcomers begin where the run is, and every sample is used once."""

import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pairs import in_turn
from support.scripts.dying_scripts import (
    ARRAYS,
    NUM_EPOCHS,
    NUM_WORKERS,
    TORCH,
    check_each_once,
    check_used_once,
    moved,
    ran,
)

from weft.adapters.watched_rates import UNNAMED
from weft.config.chaos import KILL, ChaosPlan
from weft.config.on_loss import REPLACE
from weft.core.errors import NodeLost
from weft.engines.local.fork_server import FOLLOW_UPS
from weft.engines.real.kernels import compile_kernels
from weft.engines.real.replacement import CAME_IN
from weft.engines.real.survival import OUTLIVED

HOSTS = (0, 0, 0, 1, 1)
SLOWLY = ("time.sleep(0.002)", "time.sleep(0.2 if awaits_newcomer() else 0.005)")
"""So that newcomers come before the others have ended."""


@pytest.fixture(autouse=True, scope="module")
def torch_is_imported() -> None:
    """Workers that are forked from this process begin at once, as those of a fork server do."""
    for name in ("torch", *FOLLOW_UPS["torch"]):
        import_module(name)
    compile_kernels("fp16")


def replaced(tmp_path: Path, script: str, deaths: str, **options: Any) -> tuple[Any, list[str]]:
    outcome, heard = ran(tmp_path, script.replace(*SLOWLY), deaths, on_loss=REPLACE, **options)
    return outcome, heard.told


def check_all_are_there(tmp_path: Path, outcome: Any, *ranks: int) -> None:
    """The lost workers `ranks` were replaced, all have ended, and nothing is left of their processes."""
    assert sorted(loss.worker for loss in outcome.losses) == sorted(ranks)
    assert all(loss.replaced_s is not None for loss in outcome.losses)
    assert [status.rank for status in outcome.workers] == list(range(NUM_WORKERS))
    for pid in outcome.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def last(tmp_path: Path, rank: int) -> Any:
    return np.load(tmp_path / f"{rank}.npy")[-1]


DEATHS = {
    "while it computes": "1:3:forward",
    "worker 0, after a step": "0:4:after",
    "two at once": "1:4:forward 2:4:forward",
    "one after another": "0:3:forward 1:5:after 2:7:forward 3:9:forward",
}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "torch": (TORCH, {}),
    "ring": (ARRAYS, {"collective": "ring"}),
    "tcp": (TORCH, {"transport": "tcp"}),
    "hosts": (TORCH, {"hosts": HOSTS}),
}


@pytest.mark.parametrize(
    ("way", "deaths"),
    [*in_turn(["torch"], DEATHS), ("ring", "two at once"), *in_turn(["tcp", "hosts"], ["one after another"])],
)
def test_with_newcomers_every_sample_is_used_once_and_all_replicas_are_equal(
    way: str, deaths: str, tmp_path: Path
) -> None:
    script, options = WAYS[way]
    outcome, _ = replaced(tmp_path, script, DEATHS[deaths], **options)
    check_all_are_there(tmp_path, outcome, *(int(word[0]) for word in DEATHS[deaths].split()))
    for far in moved(tmp_path, 4):
        check_each_once(far)
    for rank in range(NUM_WORKERS - 1):
        assert np.array_equal(last(tmp_path, rank), last(tmp_path, 4))


@pytest.mark.parametrize(
    "strategy",
    [
        *("ps", "ssp", "asgd", "quorum", "downpour", "neighbours", "gossip", "async_gossip", "push_sum", "gossip_grad"),
        *("local_sgd(period=2)", "diloco(period=2)", "bmuf(period=2)", "slowmo(period=2)", "easgd(period=2)"),
        *("ensemble", "hogwild"),
    ],
)
def test_under_every_strategy_a_newcomer_takes_its_part_of_what_is_left(strategy: str, tmp_path: Path) -> None:
    outcome, _ = replaced(tmp_path, ARRAYS, "1:4:forward", strategy=strategy)
    check_all_are_there(tmp_path, outcome, 1)
    check_used_once(tmp_path, outcome)


OUTSIDE = """
    for _ in range(40 if epoch == 0 else 0):  # no share is open, and the newcomer comes meanwhile
        time.sleep(0.02)
        worker.step({"w": np.zeros_like(w)}, samples=1)
"""


@pytest.mark.parametrize("strategy", ["allreduce", "asgd", "local_sgd(period=2)"])
def test_a_newcomer_that_comes_between_two_shares_begins_with_the_next(strategy: str, tmp_path: Path) -> None:
    script = ARRAYS.replace("    epochs.append", f"{OUTSIDE[1:]}    epochs.append")
    outcome, told = replaced(tmp_path, script, "1:8:after", strategy=strategy)
    assert "lost workers are not replaced" not in " ".join(told)
    check_all_are_there(tmp_path, outcome, 1)
    check_used_once(tmp_path, outcome)


OPTIMIZERS = {
    "momentum": "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "Adam": "torch.optim.Adam(model.parameters(), lr=0.1)",
    "two groups": "torch.optim.Adam([{'params': [model.weight], 'lr': 0.05}], amsgrad=True)",
}


PLACES: dict[str, dict[str, Any]] = {
    "shared update": {},
    "each its own": {"collective": "ring"},
    "of another host": {"hosts": HOSTS},
}


@pytest.mark.parametrize(
    ("place", "optimizer"), [*in_turn(["shared update"], OPTIMIZERS), *in_turn(list(PLACES)[1:], list(OPTIMIZERS)[:2])]
)
def test_a_newcomer_goes_on_with_the_optimizer_s_state_of_the_others(
    place: str, optimizer: str, tmp_path: Path
) -> None:
    options = PLACES[place]
    script = TORCH.replace("torch.optim.SGD(model.parameters(), lr=1.0)", OPTIMIZERS[optimizer])
    outcome, _ = replaced(tmp_path, script, "0:4:forward 3:6:after", **options)
    check_all_are_there(tmp_path, outcome, 0, 3)
    for rank in range(NUM_WORKERS - 1):
        assert np.array_equal(last(tmp_path, rank), last(tmp_path, 4))


SCHEDULER = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)\n"


def scheduled(keeps: str) -> str:
    script = TORCH.replace("\nlife = ", f"\n{SCHEDULER}{keeps}\nlife = ")
    return script.replace("    epochs.append", "    scheduler.step()\n    epochs.append") + (
        'open(f"{sys.argv[1]}/{worker.rank}.lr", "w").write(str(optimizer.param_groups[0]["lr"]))\n'
    )


def test_what_a_script_keeps_is_taken_over(tmp_path: Path) -> None:
    outcome, _ = replaced(tmp_path, scheduled("worker.keep(scheduler=scheduler)"), "1:12:forward")
    check_all_are_there(tmp_path, outcome, 1)
    rates = {(tmp_path / f"{rank}.lr").read_text() for rank in range(NUM_WORKERS)}
    assert rates == {str(0.5**NUM_EPOCHS)}


@pytest.mark.parametrize("options", [{}, {"collective": "ring"}], ids=["shared update", "each its own"])
def test_a_scheduler_that_steps_with_every_batch_is_as_far_on_the_newcomer(
    options: dict[str, Any], tmp_path: Path
) -> None:
    script = scheduled("worker.keep(scheduler=scheduler)").replace("    scheduler.step()\n    epochs", "    epochs")
    script = script.replace("gamma=0.5", "gamma=0.9").replace(
        "    step(rows)\n", "    step(rows)\n        scheduler.step()\n"
    )
    outcome, _ = replaced(tmp_path, script, "1:6:forward", **options)
    check_all_are_there(tmp_path, outcome, 1)
    assert len({(tmp_path / f"{rank}.lr").read_text() for rank in range(NUM_WORKERS)}) == 1
    for rank in range(NUM_WORKERS - 1):
        assert np.array_equal(last(tmp_path, rank), last(tmp_path, 4))


def counting() -> str:
    """A script whose model counts batches in a buffer, as BatchNorm does, and that tells how many in the end."""
    buffer = 'model.register_buffer("num_batches", torch.zeros((), dtype=torch.long))\n'
    script = TORCH.replace("torch.nn.init", f"{buffer}torch.nn.init", 1)
    script = script.replace("    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    model.num_batches += 1\n", 1)
    return script + (
        'open(f"{sys.argv[1]}/{worker.rank}.counted", "w").write(f"{int(model.num_batches)} {worker.steps}")\n'
    )


@pytest.mark.parametrize("options", [{}, {"collective": "ring"}], ids=["shared update", "each its own"])
def test_counters_of_batches_go_on_from_the_sponsors_on_the_newcomer(options: dict[str, Any], tmp_path: Path) -> None:
    outcome, _ = replaced(tmp_path, counting(), "1:6:forward", **options)
    check_all_are_there(tmp_path, outcome, 1)
    counted = {(tmp_path / f"{rank}.counted").read_text() for rank in range(NUM_WORKERS)}
    assert len(counted) == 1
    assert len(set(counted.pop().split())) == 1


TWICE = """
    optimizer.zero_grad()
    (model(torch.from_numpy(rows)).mean() * 0.5).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("strategy", ["allreduce", "local_sgd(period=3)"])
def test_newcomers_begin_between_batches_where_each_has_several_steps(strategy: str, tmp_path: Path) -> None:
    script = TORCH.replace("    optimizer.step()\n", f"    optimizer.step(){TWICE}", 1)
    outcome, _ = replaced(tmp_path, script, "1:6:forward", strategy=strategy)
    check_all_are_there(tmp_path, outcome, 1)
    check_used_once(tmp_path, outcome)
    (steps,) = {status.step for status in outcome.workers}
    assert steps % 2 == 0


def test_a_newcomer_that_cannot_take_over_is_lost_and_the_others_go_on(tmp_path: Path) -> None:
    keeps = "\nif worker.rank == 1:\n    worker.keep(mine=torch.optim.SGD(model.parameters(), lr=1.0))"
    script = TORCH.replace("\nlife = ", f"{keeps}\nlife = ")
    outcome, told = replaced(tmp_path, script, "1:4:forward")
    assert [status.rank for status in outcome.workers] == [0, 2, 3, 4]
    assert any("worker.keep(...) names mine here, but the worker that hands over does not" in text for text in told)


def test_a_scheduler_that_is_not_named_keeps_newcomers_out(tmp_path: Path) -> None:
    outcome, told = replaced(tmp_path, scheduled(""), "1:4:forward")
    assert [(loss.worker, loss.replaced_s) for loss in outcome.losses] == [(1, None)]
    assert (
        "lost workers are not replaced: the script's learning-rate scheduler would begin anew; name it by "
        "worker.keep(scheduler=scheduler)"
    ) in told
    assert len(outcome.workers) == NUM_WORKERS - 1


def test_a_scheduler_of_the_script_s_own_that_is_not_named_keeps_newcomers_out(tmp_path: Path) -> None:
    halves = "    optimizer.param_groups[0]['lr'] /= 2\n    epochs.append"
    script = TORCH.replace("    epochs.append", halves)
    outcome, told = replaced(tmp_path, script, "1:12:forward")
    assert [(loss.worker, loss.replaced_s) for loss in outcome.losses] == [(1, None)]
    assert any(f"lost workers are not replaced: {UNNAMED}" in text for text in told)
    beside = tmp_path / "beside"
    beside.mkdir()
    outcome, _ = replaced(beside, script.replace("\nlife = ", "\nworker.keep()\nlife = "), "1:12:forward")
    check_all_are_there(beside, outcome, 1)


STOPS_EARLY = (
    "    epochs.append(parameters().copy())\n    seen['epochs'] += 1\n    if seen['epochs'] == 2:\n        break\n"
)


@pytest.mark.parametrize("keeps", [False, True], ids=["not named", "named"])
@pytest.mark.parametrize("options", [{}, {"transport": "tcp"}], ids=["shm", "tcp"])
def test_a_script_that_stops_early_ends_on_all_workers(keeps: bool, options: dict[str, Any], tmp_path: Path) -> None:
    counts = "\nseen = {'epochs': 0}\n" + ("worker.keep(seen=seen)\n" if keeps else "") + "life = "
    script = TORCH.replace("    epochs.append(parameters().copy())\n", STOPS_EARLY).replace("\nlife = ", counts)
    outcome, _ = replaced(tmp_path, script, "1:12:forward", **options)
    causes = [OUTLIVED] if not keeps else []
    assert [loss.cause for loss in outcome.losses] == ["killed by signal 9 (SIGKILL)", *causes]
    assert {status.step for status in outcome.workers} == {outcome.workers[0].step}


def test_a_script_without_epochs_goes_on_without_the_lost_worker(tmp_path: Path) -> None:
    script = ARRAYS.replace(f"worker.epochs({NUM_EPOCHS})", f"range({NUM_EPOCHS})")
    outcome, told = replaced(tmp_path, script, "1:4:forward")
    assert len(outcome.workers) == NUM_WORKERS - 1
    assert any("newcomers find their place only in scripts that loop by worker.epochs(...)" in text for text in told)


def test_a_newcomer_whose_script_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    fails = "if os.path.exists(f'{sys.argv[1]}/0.lives'):\n    begin_life('late')\n    assert False, 'begun before'\n"
    script = ARRAYS.replace("worker = weft.join", f"{fails}worker = weft.join")
    late = "os.path.exists(f'{sys.argv[1]}/late.lives') and os.path.getsize(f'{sys.argv[1]}/late.lives') == 3"
    script = script.replace("time.sleep(0.002)", f"time.sleep(0.02 if {late} else 0.2)")
    outcome, told = replaced(tmp_path, script, "1:4:forward")
    assert [status.rank for status in outcome.workers] == [0, 2, 3, 4]
    assert sum("could not be replaced" in text and "AssertionError" in text for text in told) == 3
    assert "worker 1 was started anew 3 times within a minute, and is not again" in told
    check_used_once(tmp_path, outcome)


ONCE = "begin_life('early') == 1:\n    die()\n"


def test_a_worker_that_dies_before_all_have_joined_is_started_again(tmp_path: Path) -> None:
    begin = f"if {ONCE}worker = weft.join"
    outcome, told = replaced(tmp_path, ARRAYS.replace("worker = weft.join", begin), "")
    assert outcome.losses == []
    assert sum("is started again before it had joined: killed by signal 9" in text for text in told) == 1
    for far in moved(tmp_path, 0):
        check_each_once(far)


def test_a_newcomer_that_dies_in_its_first_step_is_replaced_again(tmp_path: Path) -> None:
    script = ARRAYS.replace("    if life > 1:", "    if life == 2:\n        die()\n    if life > 1:")
    outcome, _ = replaced(tmp_path, script, "1:3:forward")
    check_all_are_there(tmp_path, outcome, 1, 1)
    for far in moved(tmp_path, 4):
        check_each_once(far)


def test_the_last_worker_s_death_ends_the_run_though_newcomers_are_starting(tmp_path: Path) -> None:
    with pytest.raises(NodeLost, match=r"worker \d .* killed by signal 9"):
        replaced(tmp_path, ARRAYS, " ".join(f"{rank}:3:forward" for rank in range(NUM_WORKERS)))


STOPS_ONCE = """
if os.path.exists(f"{sys.argv[1]}/1.lives") and not os.path.exists(f"{sys.argv[1]}/stopped"):
    open(f"{sys.argv[1]}/stopped", "w").close()
    os.kill(os.getpid(), signal.SIGSTOP)
"""
"""The first newcomer: before that, no process begins its script when worker 1 has begun a life."""


def test_a_newcomer_that_is_stopped_before_it_joins_is_killed_and_another_comes(tmp_path: Path) -> None:
    script = ARRAYS.replace("\nw = np.zeros", f"{STOPS_ONCE}\nw = np.zeros")
    script = script.replace(SLOWLY[0], "time.sleep(0.4 if awaits_newcomer() else 0.05)")
    outcome, told = replaced(tmp_path, script, "1:4:forward")
    assert any("worker 1 could not be replaced" in text for text in told)
    check_all_are_there(tmp_path, outcome, 1)
    check_used_once(tmp_path, outcome)


def test_chaos_strikes_newcomers_too(tmp_path: Path) -> None:
    outcome, told = replaced(tmp_path, ARRAYS.replace(SLOWLY[0], "time.sleep(0.02)"), "", chaos=ChaosPlan(KILL, 0.2, 3))
    struck = [loss for loss in outcome.losses if loss.cause != CAME_IN]
    assert sum("chaos" in text for text in told) == len(struck) >= 3
    ranks = [status.rank for status in outcome.workers]
    assert all((last(tmp_path, rank) < 0).all() for rank in ranks), "every sample was used"
    assert all(np.array_equal(last(tmp_path, rank), last(tmp_path, ranks[0])) for rank in ranks)


OVER_SOCKETS = ["allreduce", "gossip", "async_gossip", "ssp", "ps", "local_sgd(period=2)", "diloco(period=2)"]


WIRES: dict[str, dict[str, Any]] = {
    "tcp": {"transport": "tcp"},
    "tcp, coded": {"transport": "tcp", "compress": "fp16"},
    "hosts": {"hosts": HOSTS},
}


@pytest.mark.parametrize(("strategy", "wire"), in_turn(OVER_SOCKETS, WIRES))
def test_over_sockets_newcomers_are_connected_to_and_take_their_part(strategy: str, wire: str, tmp_path: Path) -> None:
    script = ARRAYS.replace(SLOWLY[0], "time.sleep(0.05)")
    outcome, _ = replaced(tmp_path, script, "3:4:forward", strategy=strategy, **WIRES[wire])
    check_all_are_there(tmp_path, outcome, 3)
    check_used_once(tmp_path, outcome)


def test_over_sockets_a_worker_that_dies_before_it_has_connected_is_replaced(tmp_path: Path) -> None:
    script = ARRAYS.replace("def parameters():", f"if worker.rank == 1 and {ONCE}\ndef parameters():", 1)
    outcome, _ = replaced(tmp_path, script, "", transport="tcp")
    check_all_are_there(tmp_path, outcome, 1)
    for far in moved(tmp_path, 0):
        check_each_once(far)
