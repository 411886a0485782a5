"""What scripts report in virtual time."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from weft.adapters.array_replica import ArrayReplica
from weft.core.names import Bucket, Roles
from weft.core.rules import SGD
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.sim.facts import Facts
from weft.sim.program import ReportDone, SaveAsked
from weft.sim.reports import ModelReports, NoReports
from weft.strategies import Ensemble, LocalSGD, Neighbours
from weft.testing.worlds import ArrayProgram


class Run:
    """Two workers with the parameters 1 and 3; the result is their mean."""

    def __init__(self, strategy: Strategy | None = None) -> None:
        self.replicas = [ArrayReplica({"w": np.array([value])}, SGD(lr=1.0), None) for value in (1.0, 3.0)]
        programs = [ArrayProgram(iter(())) for _ in self.replicas]  # type: ignore[arg-type]
        world = World(Roles(2), (Bucket(1, 8),))
        self.reports = ModelReports(programs, self.replicas, strategy or LocalSGD(), world)
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
    assert run.facts.reports == [{"epoch": 0, "virtual_s": 3.0, "loss": 3.0, "consensus": None}]


def test_epochs_that_overlap_are_kept_apart(run: Run) -> None:
    run.report(0, epoch=0, now_s=1.0, loss=1.0)
    run.report(0, epoch=1, now_s=2.0, loss=2.0)
    run.report(1, epoch=0, now_s=3.0, loss=5.0)
    run.report(1, epoch=1, now_s=4.0, loss=6.0)
    assert run.facts.reports == [
        {"epoch": 0, "virtual_s": 3.0, "loss": 3.0, "consensus": None},
        {"epoch": 1, "virtual_s": 4.0, "loss": 4.0, "consensus": None},
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
    assert run.facts.reports[0]["consensus"] == 0.5, "both are 1 away from their mean, which is 2"


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
    run = Run(Neighbours(elect=1))
    told = [run.reports.own_numbers(worker, ReportDone(0, {"score": run.own(worker)})) for worker in (0, 1)]
    assert told == [{"score": 1.0}, {"score": 3.0}]


def test_at_the_end_what_worker_0_reported_alone_is_kept_and_what_others_did_is_not(run: Run) -> None:
    run.report(0, epoch=3, loss=1.0)
    run.report(1, epoch=4, loss=9.0)
    run.facts.finished_s = [5.0, 6.0]
    run.reports.end(run.facts)
    assert run.facts.reports == [{"epoch": 3, "virtual_s": 6.0, "loss": 1.0, "consensus": None}]


def test_the_predictions_of_an_ensemble_of_arrays_are_averaged_as_numbers() -> None:
    run = Run(Ensemble())
    calls = []
    for worker in (0, 1):
        run.report(worker, accuracy=lambda: calls.append(run.parameter(0)) or calls[-1] ** 2)
    assert calls == [1.0, 3.0]
    assert run.facts.final == {"accuracy": 5.0}
    assert [run.parameter(0), run.parameter(1)] == [1.0, 3.0], "and worker 0 has its own again"


def test_a_model_is_saved_when_the_last_worker_asks_for_it_and_where_worker_0_says(run: Run, tmp_path: Path) -> None:
    first, second, other = (str(tmp_path / f"{name}.safetensors") for name in ("first", "second", "other"))
    run.reports.save(0, SaveAsked(first, "result"))
    run.reports.save(0, SaveAsked(second, "result"))
    assert list(tmp_path.iterdir()) == []
    run.reports.save(1, SaveAsked(other, "result"))
    run.replicas[0].views()["w"][:] = 5.0
    run.reports.save(1, SaveAsked(other, "result"))
    assert [load_file(path)["w"].tolist() for path in (first, second)] == [[2.0], [4.0]]
    assert len(list(tmp_path.iterdir())) == 2


def test_what_only_worker_0_saves_is_saved_at_the_end(run: Run, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.safetensors", tmp_path / "other.safetensors"
    run.reports.save(0, SaveAsked(str(mine), "result"))
    run.replicas[0].views()["w"][:] = 5.0
    run.reports.end(run.facts)
    assert load_file(mine)["w"].tolist() == [4.0]
    alone = Run()
    alone.reports.save(1, SaveAsked(str(other), "result"))
    alone.reports.end(alone.facts)
    assert not other.exists()


def test_a_model_that_the_disk_cannot_take_is_told_of_at_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, models: object, *, of: int | None, allow_nan: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run.replicas[0], "save", full)
    run.reports.save(0, SaveAsked("mine", "mine"))
    run.reports.save(0, SaveAsked("model", "result"))
    run.reports.end(run.facts)
    told = "is NOT saved: No space left on device. Training goes on; a file that was there before is as it was."
    assert run.facts.not_saved == [f"'mine' {told}", f"'model' {told}"]


def saved(run: Run, path: Path, model: str) -> dict[str, list[float]]:
    for worker in (0, 1):
        run.reports.save(worker, SaveAsked(str(path), model))
    return {name: value.tolist() for name, value in load_file(path).items()}


def test_the_best_is_the_worker_with_the_best_training_loss_as_long_as_no_score_is_reported(
    run: Run, tmp_path: Path
) -> None:
    run.reports.remember(0, 0.5)
    run.reports.remember(1, 0.25)
    assert saved(run, tmp_path / "best", "best") == {"w": [3.0]}
    run.reports.own_numbers(0, ReportDone(0, {"loss": 0.125, "accuracy": 0.5}))
    assert saved(run, tmp_path / "best", "best") == {"w": [1.0]}


def test_an_ensemble_is_saved_as_one_file_and_the_mean_of_one_as_a_model(tmp_path: Path) -> None:
    run = Run(Ensemble())
    for model in ("result", "ensemble"):
        assert saved(run, tmp_path / "all", model) == {"member0.w": [1.0], "member1.w": [3.0]}
    assert saved(run, tmp_path / "mean", "mean") == {"w": [2.0]}


def test_its_own_model_is_saved_at_once_by_each_worker(run: Run, tmp_path: Path) -> None:
    run.reports.save(1, SaveAsked(str(tmp_path / "model.1.safetensors"), "mine"))
    assert load_file(tmp_path / "model.1.safetensors")["w"].tolist() == [3.0]


def test_programs_without_a_model_report_nothing(tmp_path: Path) -> None:
    reports, facts = NoReports(), Facts(1)
    request = ReportDone(0, {"loss": 1.0})
    assert reports.own_numbers(0, request) == {}
    reports.add(0, request, 1.0, facts)
    reports.remember(0, 0.5)
    reports.save(0, SaveAsked(str(tmp_path / "model"), "result"))
    reports.end(facts)
    assert facts == Facts(1)
    assert list(tmp_path.iterdir()) == []
