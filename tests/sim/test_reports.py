"""What scripts report in virtual time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from worlds import ArrayProgram

from weft.adapters.arrays import ArrayReplica
from weft.core.names import Bucket, Result, Roles
from weft.core.rules import SGD
from weft.core.world import World
from weft.sim.facts import Facts
from weft.sim.program import ReportDone
from weft.sim.reports import ModelReports, NoReports
from weft.store.result import ResultModel


class Run:
    """Two workers with the parameters 1 and 3; the result is their mean."""

    def __init__(self, *, scored: bool = False) -> None:
        self.replicas = [ArrayReplica({"w": np.array([value])}, SGD(lr=1.0), None) for value in (1.0, 3.0)]
        result = ResultModel(Result.MEAN, World(Roles(2), (Bucket(1, 8),)), self.replicas)
        programs = [ArrayProgram(iter(())) for _ in self.replicas]  # type: ignore[arg-type]
        self.reports = ModelReports(programs, self.replicas, result, scored=scored)
        self.facts = Facts(2)

    def report(self, worker: int, epoch: int = 0, now_s: float = 1.0, **numbers: Any) -> None:
        self.reports.add(worker, ReportDone(epoch, numbers), now_s, self.facts)

    def parameter(self, worker: int) -> float:
        return float(self.replicas[worker].views()["w"][0])

    def own(self, worker: int) -> Callable[[], float]:
        return lambda: self.parameter(worker)


@pytest.fixture
def run() -> Run:
    return Run()


def test_a_report_is_complete_when_the_last_worker_has_made_it(run: Run) -> None:
    run.report(1, now_s=1.0, loss=2.0)
    assert run.facts.reports == []
    run.report(0, now_s=3.0, loss=4.0)
    assert run.facts.reports == [{"epoch": 0, "virtual_s": 3.0, "loss": 3.0}]


def test_epochs_that_overlap_are_kept_apart(run: Run) -> None:
    run.report(0, epoch=0, now_s=1.0, loss=1.0)
    run.report(0, epoch=1, now_s=2.0, loss=2.0)
    run.report(1, epoch=0, now_s=3.0, loss=5.0)
    run.report(1, epoch=1, now_s=4.0, loss=6.0)
    assert run.facts.reports == [
        {"epoch": 0, "virtual_s": 3.0, "loss": 3.0},
        {"epoch": 1, "virtual_s": 4.0, "loss": 4.0},
    ]


def test_a_callable_is_run_once_on_the_result_put_into_worker_0s_model(run: Run) -> None:
    calls = []

    def accuracy() -> float:
        calls.append(run.parameter(0))
        return calls[-1] * 10

    for worker in (0, 1):
        run.report(worker, accuracy=accuracy)
    assert calls == [2.0]
    assert run.facts.final == {"accuracy": 20.0}
    assert [run.parameter(0), run.parameter(1)] == [1.0, 3.0], "and taken out again"


def test_the_model_is_given_back_even_when_the_callable_fails(run: Run) -> None:
    def fails() -> float:
        raise ValueError("no test data")

    run.report(1, accuracy=fails)
    with pytest.raises(ValueError, match="no test data"):
        run.report(0, accuracy=fails)
    assert run.parameter(0) == 1.0


def test_several_reports_of_a_worker_in_one_epoch_add_up(run: Run) -> None:
    run.report(0, loss=1.0)
    run.report(0, error=0.5)
    run.report(1, loss=3.0, error=1.5)
    assert run.facts.final == {"loss": 2.0, "error": 1.0}


def test_a_number_that_only_some_report_is_averaged_over_those(run: Run) -> None:
    run.report(0, loss=1.0)
    run.report(1)
    assert run.facts.final == {"loss": 1.0}


def test_a_peer_is_told_its_workers_numbers_and_no_callables(run: Run) -> None:
    request = ReportDone(0, {"loss": 2, "accuracy": run.own(0)})
    assert run.reports.own_numbers(0, request) == {"loss": 2.0}


def test_a_peer_of_a_scored_strategy_is_told_what_callables_give_on_its_workers_own_model() -> None:
    run = Run(scored=True)
    told = [run.reports.own_numbers(worker, ReportDone(0, {"score": run.own(worker)})) for worker in (0, 1)]
    assert told == [{"score": 1.0}, {"score": 3.0}]


def test_at_the_end_what_worker_0_reported_alone_is_kept_and_what_others_did_is_not(run: Run) -> None:
    run.report(0, epoch=3, loss=1.0)
    run.report(1, epoch=4, loss=9.0)
    run.facts.finished_s = [5.0, 6.0]
    run.reports.end(run.facts)
    assert run.facts.reports == [{"epoch": 3, "virtual_s": 6.0, "loss": 1.0}]


def test_the_result_is_saved_once_at_the_end_where_worker_0_asked(run: Run, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.safetensors", tmp_path / "other.safetensors"
    run.reports.save(0, str(mine))
    run.reports.save(1, str(other))
    assert not mine.exists()
    run.replicas[0].views()["w"][:] = 5.0
    run.reports.end(run.facts)
    assert load_file(mine)["w"].tolist() == [4.0]
    assert not other.exists()


def test_programs_without_a_model_report_nothing(tmp_path: Path) -> None:
    reports, facts = NoReports(), Facts(1)
    request = ReportDone(0, {"loss": 1.0})
    assert reports.own_numbers(0, request) == {}
    reports.add(0, request, 1.0, facts)
    reports.save(0, str(tmp_path / "model"))
    reports.end(facts)
    assert facts == Facts(1)
    assert list(tmp_path.iterdir()) == []
