"""Hyper-parameters that a script lets a population change."""

from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.processes.real import real
from support.scripts.training_scripts import (
    ARRAYS,
    ARRAYS_TRAIN,
    SEEN,
    TORCH,
    TORCH_JOIN,
    TORCH_TRAIN,
    simulated,
    write,
)

import weft
from weft.adapters.tuning import Tuning
from weft.core.errors import ConfigError
from weft.core.names import Bucket


def groups() -> list[dict[str, Any]]:
    """As an optimizer has them: numbers, and other things."""
    return [
        {"params": [], "lr": 0.1, "momentum": 0.9, "nesterov": False, "betas": (0.9, 0.99)},
        {"params": [], "lr": 0.2, "momentum": 0.5, "nesterov": False, "betas": (0.9, 0.99)},
    ]


def refusal(**ranges: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        Tuning(groups(), ranges)
    return str(refused.value)


def test_every_group_has_a_value_of_its_own() -> None:
    tuning = Tuning(groups(), {"lr": (0.01, 1.0), "momentum": (0.5, 0.99)})
    bucket, values = tuning.share()
    assert bucket == Bucket(4, 8, trainable=False, tuned=True)
    assert values.tolist() == [0.1, 0.2, 0.9, 0.5]
    assert tuning.lines() == ["lr from 0.01 to 1"] * 2 + ["momentum from 0.5 to 0.99"] * 2


def test_a_value_out_of_its_range_begins_at_its_limit() -> None:
    mine = groups()
    tuning = Tuning(mine, {"lr": (0.15, 0.18)})
    assert tuning.share()[1].tolist() == [0.15, 0.18]
    tuning.take()
    assert [group["lr"] for group in mine] == [0.15, 0.18]


def test_the_script_takes_what_was_changed_within_the_range() -> None:
    mine = groups()
    tuning = Tuning(mine, {"lr": (0.01, 1.0)})
    _, values = tuning.share()
    values[:] = 0.05, 7.0
    tuning.take()
    assert [group["lr"] for group in mine] == [0.05, 1.0]
    assert values.tolist() == [0.05, 1.0], "others see what is used"
    values[0] = nan
    tuning.take()
    assert [group["lr"] for group in mine] == [0.05, 1.0]


def test_what_the_script_changes_itself_is_given_and_stays() -> None:
    mine = groups()
    tuning = Tuning(mine, {"lr": (0.01, 1.0)})
    _, values = tuning.share()
    mine[1]["lr"] = 0.001
    tuning.give()
    assert values.tolist() == [0.1, 0.001]
    tuning.take()
    assert [group["lr"] for group in mine] == [0.1, 0.001], "even out of the range, which is for others"


def test_nothing_happens_until_a_strategy_wants_the_values() -> None:
    mine = groups()
    tuning = Tuning(mine, {"lr": (0.01, 0.05)})
    tuning.give()
    tuning.take()
    assert tuning.values is None
    assert mine == groups()


def test_a_tensor_keeps_its_place() -> None:
    rate = torch.tensor(0.1)
    tuning = Tuning([{"lr": rate}], {"lr": (0.01, 1.0)})
    _, values = tuning.share()
    values[0] = 0.5
    tuning.take()
    assert float(rate) == 0.5


def test_names_that_are_no_numbers_of_the_optimizer_are_refused() -> None:
    assert refusal(lt=(0.1, 1)) == "worker.tune(lt=...) names no number of the optimizer.\n  Did you mean 'lr'?"
    for name in ("betas", "nesterov", "params"):
        assert refusal(**{name: (0.1, 1)}).startswith(f"worker.tune({name}=...) names no number of the optimizer.\n")
    with pytest.raises(ConfigError, match=r"names no number of the optimizer\.\n  None are known\."):
        Tuning([], {"lr": (0.1, 1.0)})


@pytest.mark.parametrize("limits", [0.1, (0.1,), (0.1, 0.2, 0.3), ("a", 1.0), "ab"])
def test_what_is_no_range_is_refused(limits: Any) -> None:
    assert refusal(lr=limits) == (
        f"worker.tune(lr={limits!r}) wants a range of two numbers.\n  Write e.g. worker.tune(lr=(0.01, 1))."
    )


@pytest.mark.parametrize("limits", [(0.2, 0.1), (0.1, 0.1), (0, 0.1), (-1, 1), (0.1, float("inf")), (nan, 1)])
def test_an_empty_or_endless_range_and_numbers_that_are_not_above_0_are_refused(limits: tuple[float, float]) -> None:
    assert refusal(lr=limits) == (
        f"worker.tune(lr=({limits[0]:g}, {limits[1]:g})) is no range of numbers above 0, the smaller one first.\n"
        "  Write e.g. worker.tune(lr=(0.01, 1)); a population multiplies by factors, which leave 0 as it is."
    )


def test_a_call_without_names_is_refused() -> None:
    assert refusal() == "worker.tune() was given nothing to tune.\n  Write e.g. worker.tune(lr=(1e-4, 1e-1))."


def test_alone_names_are_checked_and_nothing_is_changed() -> None:
    worker = weft.join(arrays={"w": np.zeros(2)}, optimizer=weft.SGD(lr=0.1))
    with pytest.raises(ConfigError, match="Did you mean 'lr'"):
        worker.tune(rl=(0.5, 1.0))
    worker.tune(lr=(0.5, 1.0))
    worker.step({"w": np.ones(2)})
    assert worker._replica.views()["w"].tolist() == [-0.1, -0.1]


def test_tuning_comes_once_and_before_everything_else() -> None:
    def joined() -> Any:
        return weft.join(arrays={"w": np.zeros(2)}, optimizer=weft.SGD(lr=0.1))

    worker = joined()
    worker.tune(lr=(0.01, 1.0))
    with pytest.raises(ConfigError) as refused:
        worker.tune(lr=(0.01, 1.0))
    assert str(refused.value) == (
        "worker.tune was called twice.\n  Name all in one call: worker.tune(lr=..., momentum=...)."
    )
    stepped, reported = joined(), joined()
    stepped.step({"w": np.ones(2)})
    reported.report(loss=1.0)
    for late in (stepped, reported):
        with pytest.raises(ConfigError) as refused:
            late.tune(lr=(0.01, 1.0))
        assert str(refused.value) == (
            "worker.tune was called after training had begun.\n  Call it directly after weft.join."
        )


LOOP = ARRAYS_TRAIN + "    SEEN.append((worker.rank, worker._replica._optimizer.lr))\n"


def rates(seen: list[tuple[int, Any]], worker: int) -> list[Any]:
    return [rate for rank, rate in seen if rank == worker]


@pytest.mark.parametrize("strategy", ["allreduce", "local_sgd", "ps", "async_gossip", "ensemble"])
def test_other_strategies_leave_the_values_to_the_script(strategy: str, tmp_path: Path) -> None:
    tune = "worker.tune(lr=(0.01, 1.0), momentum=(0.1, 0.95))\n"
    tuned = simulated(write(tmp_path, ARRAYS, tune, LOOP), 3, strategy)
    assert {rate for _, rate in SEEN} == {0.1}
    plain = simulated(write(tmp_path, ARRAYS, LOOP), 3, strategy)
    assert tuned.trace == plain.trace
    assert [a.tobytes() for a in tuned.arrays or []] == [a.tobytes() for a in plain.arrays or []]


def test_a_population_of_arrays_trains_with_values_of_its_own_within_their_ranges(tmp_path: Path) -> None:
    simulated(write(tmp_path, ARRAYS, "worker.tune(lr=(0.09, 0.11))\n", LOOP), 4, "population(spread=9)")
    assert rates(SEEN, 0)[0] == 0.1
    others = [rate for worker in (1, 2, 3) for rate in rates(SEEN, worker)]
    assert all(0.09 <= rate <= 0.11 for rate in others)
    assert {0.09, 0.11} & set(others), "some would have gone beyond"


def test_a_population_of_torch_models_changes_the_groups_of_their_optimizers(tmp_path: Path) -> None:
    text = (
        "worker.tune(lr=(0.001, 10.0), momentum=(0.1, 0.99))\n",
        TORCH_TRAIN,
        "    worker.report()\n    SEEN.append((worker.rank, (optimizer.param_groups[0]['lr'], "
        "optimizer.param_groups[0]['momentum'])))\n",
    )
    simulated(write(tmp_path, TORCH, TORCH_JOIN, *text), 3, "population")
    begun = [rates(SEEN, worker)[0] for worker in range(3)]
    assert len(set(begun)) == 3
    assert all(0.001 <= rate <= 10.0 and 0.1 <= momentum <= 0.99 for _, (rate, momentum) in SEEN)


def test_a_schedulers_steps_go_on_from_what_a_population_has_set(tmp_path: Path) -> None:
    text = (
        "worker.tune(lr=(0.0001, 10.0))\nhalved = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)\n",
        TORCH_TRAIN,
        "    halved.step()\n    before = optimizer.param_groups[0]['lr']\n    worker.report()\n"
        "    SEEN.append((worker.rank, (before, optimizer.param_groups[0]['lr'])))\n",
    )
    simulated(write(tmp_path, TORCH, TORCH_JOIN, *text), 4, "population(spread=1.5)")
    for worker in range(4):
        (first, after), (second, _) = rates(SEEN, worker)
        assert second == after / 2
        assert worker or first == 0.05
    assert any(before != after for _, (before, after) in SEEN)


def test_workers_that_tune_differently_are_refused_simulated_and_real(tmp_path: Path) -> None:
    script = write(tmp_path, ARRAYS, "worker.tune(lr=(0.01, 1.0 + worker.rank))\n", ARRAYS_TRAIN)
    for run in (simulated, real):
        with pytest.raises(ConfigError) as refused:
            run(script, 2, "allreduce")
        assert str(refused.value) == (
            "worker 1 tunes lr from 0.01 to 2, worker 0 tunes lr from 0.01 to 1.\n"
            "  Call worker.tune(...) alike on every worker."
        )
