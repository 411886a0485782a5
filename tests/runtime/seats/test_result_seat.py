"""Models that are read of a run under way: the run's result, this worker's replica, and what else it must keep."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest

from weft.core.names import PARAMS, Buffer, Result
from weft.core.script_state import RUNNING, ScriptState
from weft.core.seat import RESULT
from weft.runtime.seats.result_seat import ResultSeat


class Store:
    """The store of a node, whose buckets have two numbers each."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.did: list[str] = []

    def lend(self, buffer: Buffer) -> list[float]:
        assert buffer.slot == PARAMS
        return [self.value, float(buffer.bucket)]

    def to_keep(self) -> dict[str, float]:
        return {"kept": self.value}

    def digests(self) -> dict[str, int]:
        return {"params": int(self.value)}

    def lend_model(self) -> None:
        self.did.append("lent")

    def take_model_back(self) -> None:
        self.did.append("taken back")

    def let_user_run(self) -> None:
        self.did.append("runs")


class Fetched:
    """The run's result, as it is fetched from others."""

    def models(self, model: str) -> Mapping[str, Sequence[Any]]:
        return {"": [f"{model} of all", "second bucket"]}

    def consensus(self) -> float:
        return 0.25


def seat(kind: Result, *, keeps_equal: bool = True, num_workers: int = 2) -> Any:
    """Worker 1 of a run with such a result; its process has the second of two servers, too."""
    made: Any = object.__new__(ResultSeat)
    nodes = {1: SimpleNamespace(store=Store(1.0)), num_workers + 1: SimpleNamespace(store=Store(30.0))}
    made._runtime = SimpleNamespace(
        strategy=SimpleNamespace(result=kind, keeps_replicas_equal=keeps_equal, shares_replica=False),
        world=SimpleNamespace(num_workers=num_workers, buckets=["b0", "b1"]),
        driver=SimpleNamespace(nodes=nodes),
        worker=SimpleNamespace(store=nodes[1].store),
        result=lambda wait, best: Fetched(),
    )
    made._driving = lambda: nullcontext(made._runtime)
    made._lock, made._best, made.num_workers = RLock(), 0, num_workers
    made.script = ScriptState(RUNNING)
    return made


@pytest.mark.parametrize("kind", [Result.REPLICA, Result.ENSEMBLE])
def test_where_the_result_is_no_single_model_of_others_it_is_this_workers_replica(kind: Result) -> None:
    here = seat(kind)
    assert here.result_kind is kind
    assert here.result_values() == here.own_values() == [[1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("kind", [kind for kind in Result if kind not in (Result.REPLICA, Result.ENSEMBLE)])
def test_elsewhere_the_result_is_fetched(kind: Result) -> None:
    assert seat(kind).result_values() == [f"{RESULT} of all", "second bucket"]


def test_the_worker_and_the_servers_of_its_process_are_kept_by_number() -> None:
    assert seat(Result.MEAN).to_keep() == {"worker": {"kept": 1.0}, "servers": {1: {"kept": 30.0}}}


@pytest.mark.parametrize(
    ("keeps_equal", "num_workers", "digests"), [(True, 2, {"params": 1}), (False, 2, {}), (True, 1, {})]
)
def test_digests_are_told_where_replicas_of_several_are_to_be_equal(
    keeps_equal: bool, num_workers: int, digests: dict[str, int]
) -> None:
    assert seat(Result.REPLICA, keeps_equal=keeps_equal, num_workers=num_workers)._digests() == digests


def test_a_function_that_is_reported_sees_the_result_while_the_model_is_lent() -> None:
    here = seat(Result.MEAN)

    def run_as(models: list[Any], function: Callable[[], float]) -> float:
        here._runtime.worker.store.did.append(models[0][0])
        return function()

    here._replica = SimpleNamespace(run_as=run_as)
    assert here._on_result({"loss": lambda: 0.5}) == ({"loss": 0.5}, 0.25)
    assert here._runtime.worker.store.did == ["lent", f"{RESULT} of all", "taken back", "runs"]
    assert here.script.at is RUNNING
