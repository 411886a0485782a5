"""A comparison under way: runs are kept, what is lacking is run, and who fails is left."""

import errno
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from weft.config.ways import Way
from weft.core.errors import ConfigError, NodeLost
from weft.engines.compare.runner import ComparisonRun, Trial, run_of
from weft.observe.records.comparison import Comparison, Setup, Target

WAYS = [Way("allreduce"), Way("ssp")]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import weft")
    return path


def setup(script: Path, seeds: int = 2, **other: Any) -> Setup:
    said: dict[str, Any] = {"arguments": [], "slow": {}, "options": {}, **other}
    return Setup(
        script=str(script),
        workers=2,
        seeds=list(range(seeds)),
        target=Target("accuracy", 0.9),
        network=None,
        cluster=None,
        command="weft compare",
        machine={"cpu": "a", "torch": None},
        **said,
    )


def row(seed: int = 0, **other: Any) -> dict[str, Any]:
    worker = {"rank": 0, "steps": 4, "samples": 40.0, "bytes_sent": 7}
    fractions = {f"{name}_fraction": 0.25 for name in ("computing", "reading", "waiting", "paused")}
    return {
        "seed": seed,
        "virtual_s": None,
        "wall_s": 10.0,
        "steps": 4,
        "samples": 80.0,
        "bytes_sent": 14,
        "final": {"accuracy": 0.95},
        "reports": [
            {"epoch": 0, "wall_s": 2.0, "accuracy": 0.5, "consensus": None},
            {"epoch": 1, "wall_s": 4.0, "accuracy": 0.9, "consensus": 0.1},
            {"epoch": 2, "wall_s": 6.0, "accuracy": 0.95, "consensus": 0.1},
        ],
        "curve": [{"wall_s": t, "samples": 10 * t, "loss": None} for t in (1.0, 3.5, 5.0)],
        "staleness_histogram": {"0": 3},
        "per_worker": [{**worker, **fractions}],
        "timeline": [[["compute", 1.0, 2.0]]],
        "blame": ["worker 0 is slow"],
        **other,
    }


def test_a_run_reaches_its_target_when_that_is_first_reported() -> None:
    run = run_of(row(), Target("accuracy", 0.9))
    assert (run.to_target_s, run.samples_to_target, run.seconds) == (4.0, 35.0, 10.0)
    assert run.reports[1] == {"at_s": 4.0, "epoch": 1, "accuracy": 0.9, "consensus": 0.1}
    assert run.workers[0].spans == [("compute", 1.0, 2.0)]
    assert run.blame == ["worker 0 is slow"]
    assert run_of(row(), Target("accuracy", 0.99)).to_target_s is None
    assert run_of(row(), None).to_target_s is None


def test_simulated_runs_have_virtual_times_and_baselines_unknown_bytes() -> None:
    virtual = [{"virtual_s": 3.0, "epoch": 0, "accuracy": 0.95}]
    run = run_of(row(virtual_s=5.0, reports=virtual, curve=[], timeline=None), Target("accuracy", 0.9))
    assert (run.seconds, run.to_target_s, run.samples_to_target) == (5.0, 3.0, None)
    assert run.workers[0].spans == []
    assert run_of(row(bytes_sent=None), None).bytes_per_worker is None


def test_seeds_come_one_after_another_and_the_time_left_is_told(script: Path, tmp_path: Path) -> None:
    heats: list[Trial] = []
    now = iter([0.0, 2.0, 2.0, 6.0, 6.0, 7.0, 7.0, 9.0])

    def run(trial: Trial) -> dict[str, Any]:
        heats.append(trial)
        return row(trial.seed)

    ComparisonRun(setup(script), WAYS, tmp_path / "a.json", lambda: next(now)).run(run)
    assert [str(trial) for trial in heats] == [
        f"{name}, seed {seed}" for seed in (0, 1) for name in ("allreduce", "ssp")
    ]
    assert [(trial.number, trial.of, trial.left_s) for trial in heats] == [
        (1, 4, None),
        (2, 4, 3 * 2.0),
        (3, 4, 2 * 3.0),
        (4, 4, pytest.approx(7 / 3)),
    ]


def test_a_disk_that_is_full_ends_no_comparison(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison_run = ComparisonRun(setup(script), WAYS, tmp_path / "a.json")

    def half(path: Path, text: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", half)
        comparison_run.run(lambda trial: row(trial.seed))
    assert comparison_run.comparison.is_complete
    assert isinstance(comparison_run.not_kept, OSError)
    assert list(tmp_path.glob("*a.json*")) == []
    comparison_run._keep()
    assert comparison_run.not_kept is None
    assert (tmp_path / "a.json").is_file()


def test_an_interrupted_comparison_goes_on_where_it_was(script: Path, tmp_path: Path) -> None:
    def run_once(trial: Trial) -> dict[str, Any]:
        if trial.number > 1:
            raise KeyboardInterrupt
        return row(trial.seed)

    file = tmp_path / "a.json"
    with pytest.raises(KeyboardInterrupt):
        ComparisonRun(setup(script), WAYS, file).run(run_once)
    seen: list[str] = []

    def run(trial: Trial) -> dict[str, Any]:
        seen.append(str(trial))
        return row(trial.seed)

    comparison_run = ComparisonRun(setup(script), [*WAYS, Way("hogwild")], file)
    assert comparison_run.has_runs
    comparison = comparison_run.run(run)
    assert seen == ["ssp, seed 0", "hogwild, seed 0", "allreduce, seed 1", "ssp, seed 1", "hogwild, seed 1"]
    assert comparison.is_complete
    assert msgspec.json.decode(file.read_bytes(), type=Comparison) == comparison
    assert not list(tmp_path.glob(".*")), "nothing is left beside it"


@pytest.mark.parametrize("other", [{"arguments": ["--lr", "1"]}, {"slow": {"0": 2.0}}], ids=str)
def test_runs_of_another_comparison_are_not_gone_on_with_but_kept(
    script: Path, tmp_path: Path, other: dict[str, Any]
) -> None:
    file = tmp_path / "a.json"
    ComparisonRun(setup(script), WAYS, file).run(lambda trial: row(trial.seed))
    before = file.read_bytes()
    comparison_run = ComparisonRun(setup(script, **other), WAYS, file)
    assert not comparison_run.has_runs
    assert comparison_run.moved_to is not None
    assert comparison_run.moved_to.read_bytes() == before


@pytest.mark.parametrize("changed", ["train.py", "helper.py"])
def test_a_change_of_the_script_or_of_a_module_beside_it_begins_anew(
    script: Path, tmp_path: Path, changed: str
) -> None:
    file = tmp_path / "a.json"
    ComparisonRun(setup(script), WAYS, file).run(lambda trial: row(trial.seed))
    assert ComparisonRun(setup(script), WAYS, file).has_runs
    (tmp_path / changed).write_text("import weft # changed")
    assert not ComparisonRun(setup(script), WAYS, file).has_runs


def test_contenders_and_seeds_that_are_not_asked_for_are_kept_for_another_time(script: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    ComparisonRun(setup(script), WAYS, file).run(lambda trial: row(trial.seed))
    ComparisonRun(setup(script, seeds=1), [Way("hogwild"), Way("ssp")], file).run(lambda trial: row(trial.seed))
    seen: list[str] = []
    again = ComparisonRun(setup(script), [*WAYS, Way("hogwild")], file)

    def run(trial: Trial) -> dict[str, Any]:
        seen.append(str(trial))
        return row(trial.seed)

    comparison = again.run(run)
    assert seen == ["hogwild, seed 1"]
    assert [len(each.runs) for each in comparison.contenders] == [2, 2, 2]
    assert comparison.aside == []


def test_another_target_needs_no_other_runs(script: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    ComparisonRun(setup(script), WAYS, file).run(lambda trial: row(trial.seed))
    other = msgspec.structs.replace(setup(script), target=Target("accuracy", 0.95))
    comparison_run = ComparisonRun(other, WAYS, file)
    assert comparison_run.has_runs
    run = comparison_run.comparison.contenders[0].runs[0]
    assert (run.to_target_s, run.samples_to_target) == (6.0, 50.0)


def test_whatever_ends_a_contender_the_others_go_on(script: Path, tmp_path: Path) -> None:
    def run(trial: Trial) -> dict[str, Any]:
        if trial.way.strategy == "ssp":
            raise RuntimeError("unforeseen")
        return row(trial.seed)

    comparison = ComparisonRun(setup(script), WAYS, tmp_path / "a.json").run(run)
    assert [each.error for each in comparison.contenders] == [None, "RuntimeError: unforeseen"]


def test_a_contender_that_fails_is_left_with_its_error_and_tried_again_next_time(script: Path, tmp_path: Path) -> None:
    def run(trial: Trial) -> dict[str, Any]:
        if trial.way.strategy == "ssp":
            raise NodeLost("worker 1 raised ValueError")
        return row(trial.seed)

    file = tmp_path / "a.json"
    comparison = ComparisonRun(setup(script), WAYS, file).run(run)
    assert [(each.label, len(each.runs), each.error) for each in comparison.contenders] == [
        ("allreduce", 2, None),
        ("ssp", 0, "worker 1 raised ValueError"),
    ]
    assert comparison.is_complete
    again = ComparisonRun(setup(script), WAYS, file).run(lambda trial: row(trial.seed))
    assert [each.error for each in again.contenders] == [None, None]


def test_a_script_that_cannot_start_is_not_tried_in_other_ways(script: Path, tmp_path: Path) -> None:
    tried: list[str] = []

    def run(trial: Trial) -> dict[str, Any]:
        tried.append(trial.way.label)
        error = NodeLost("worker 0 raised ImportError before it joined: no numpy")
        error.before_join = True
        raise error

    file = tmp_path / "a.json"
    with pytest.raises(NodeLost, match="no numpy"):
        ComparisonRun(setup(script), WAYS, file).run(run)
    assert tried == ["allreduce"]
    assert not file.exists()


def test_a_script_that_could_start_once_is_tried_in_all_ways(script: Path, tmp_path: Path) -> None:
    def run(trial: Trial) -> dict[str, Any]:
        if trial.way.strategy == "ssp":
            error = NodeLost("worker 0 stopped before it had joined")
            error.before_join = True
            raise error
        return row(trial.seed)

    comparison = ComparisonRun(setup(script), WAYS, tmp_path / "a.json").run(run)
    assert [each.error for each in comparison.contenders] == [None, "worker 0 stopped before it had joined"]


def test_a_file_that_is_something_else_is_not_overwritten(script: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"precious": 1}))
    with pytest.raises(ConfigError, match="is not the file of a comparison, and would be overwritten"):
        ComparisonRun(setup(script), WAYS, file)
