"""weft bench."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import assert_refused, weft_command
from support.scripts.mnist_files import write_tiny_mnist

from weft.bench import simulator
from weft.bench.benchmark import Benchmark, Work, work_rows
from weft.bench.contender import BenchmarkContender
from weft.bench.racing import RaceResult, finish_rows
from weft.bench.slownet import BARS as SLOWNET_BARS
from weft.bench.start import SECONDS_BAR, START
from weft.bench.straggler import BARS as STRAGGLER_BARS
from weft.cli.verbs import bench


@pytest.fixture(autouse=True)
def _small_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "WORLDS", {"ssp, 4": ("ssp", 4, 5)})


def test_the_simulator_is_measured_shown_and_written(tmp_path: Path) -> None:
    path = tmp_path / "simulator.json"
    ended = weft_command("bench", "simulator", "--blocks", 2, "--json", path)
    assert (ended.code, ended.err) == (0, "")
    report = json.loads(path.read_text())
    assert [row["recorder"] for row in report["rows"]] == ["off", "on"]
    assert report["machine"]["cores"] >= 1
    for row in report["rows"]:
        assert f"{row['events']:,}" in ended.out
        assert "met" in ended.out or "MISSED" in ended.out


def test_at_least_one_block_is_measured() -> None:
    because = "--blocks is 0, but at least 1 must be measured.\n  Use --blocks 15."
    assert_refused("bench", "simulator", "--blocks", 0, because=because)


def test_a_missing_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.json"
    because = f"'{path}' cannot be written: there is no folder '{path.parent}'.\n  Make it first."
    assert_refused("bench", "simulator", "--json", path, because=because)


def trials(bar: float) -> Benchmark:
    """Weft and a rival that do the same: copies."""
    copy = "weft.bench.contenders.memcpy"
    contenders = (
        BenchmarkContender("weft", copy, is_alone=True),
        BenchmarkContender("rival", copy, is_alone=True),
        BenchmarkContender("absent", copy, missing=lambda: "not installed"),
    )
    return Benchmark("allreduce", "seconds", (Work("2x64KiB", "64KiB", 2),), contenders, {"rival/2x64KiB": bar}, 1e-3)


@pytest.mark.processes
@pytest.mark.parametrize(("bar", "verdict"), [(1e-3, "0.00 met"), (1e3, "1000.00 MISSED")])
def test_contenders_are_measured_shown_and_written(
    bar: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ALLREDUCE", trials(bar))
    path = tmp_path / "allreduce.json"
    ended = weft_command("bench", "allreduce", "--blocks", 2, "--json", path)
    assert (ended.code, ended.err) == (0, "")
    assert verdict in ended.out
    assert "not installed" in ended.out
    report = json.loads(path.read_text())
    assert [row["contender"] for row in report["rows"]] == ["weft", "rival", "absent"]
    assert list(report["ratios"]) == ["rival/2x64KiB"]


@pytest.mark.parametrize(
    ("verb", "only", "because"),
    [
        ("allreduce", "4x16MB", "work '4x16MB' is not one of 'allreduce'.\n  Did you mean '4x16MiB'?"),
        ("throughput", "mpl", "work 'mpl' is not one of 'throughput'.\n  Did you mean 'mlp'?"),
        ("overhead", "mlp", "work 'mlp' is not one of 'overhead'.\n  Known: cnn."),
    ],
)
def test_a_work_that_is_not_known_is_refused(verb: str, only: str, because: str) -> None:
    assert_refused("bench", verb, "--only", only, because=because)


def test_slow_networks_are_measured_shown_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def measured(course: object, *options: object) -> dict[str, object]:
        asked.extend(options[:-1])
        finishes = {"weft": [RaceResult(20.0, 300, 0.97, True)] * 3, "ddp": [RaceResult(300.0, 300, 0.97, True)] * 3}
        return {"unit": "seconds", "rows": finish_rows(finishes, "weft", SLOWNET_BARS), "ratios": {}}

    monkeypatch.setattr(bench, "measure_slownet", measured)
    path = tmp_path / "slownet.json"
    options = ("--data", write_tiny_mnist(tmp_path), "--strategy", "ssp", "--compress", "none", "--json", path)
    ended = weft_command("bench", "slownet", *options)
    assert (ended.code, asked) == (0, [3, "ssp", None])
    assert "15.00 │ 10.00 met" in ended.out
    assert [row["contender"] for row in json.loads(path.read_text())["rows"]] == ["weft", "ddp"]


def test_slow_workers_are_measured_shown_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def measured(course: object, *options: object) -> dict[str, object]:
        asked.extend(options[:-1])
        finishes = {"ssp": [RaceResult(10.0, 9, 0.97, True)] * 3, "ddp": [RaceResult(30.0, 9, 0.97, True)] * 3}
        return {"unit": "seconds", "rows": finish_rows(finishes, "ssp", STRAGGLER_BARS), "ratios": {}}

    monkeypatch.setattr(bench, "measure_straggler", measured)
    path = tmp_path / "straggler.json"
    folder = write_tiny_mnist(tmp_path)
    ended = weft_command("bench", "straggler", "--data", folder, "--strategy", "ssp", "--others", 1, "--json", path)
    assert ended.code == 0, ended.err
    assert asked[:2] == [15, "ssp"]
    assert "ssp" not in asked[2]  # type: ignore[operator]
    assert "2.20 met" in ended.out
    assert [row["contender"] for row in json.loads(path.read_text())["rows"]] == ["ssp", "ddp"]


def test_slow_networks_need_mnist(tmp_path: Path) -> None:
    because = f"there is no MNIST in '{tmp_path}'.\n  Name the folder of its four files with --data FOLDER."
    assert_refused("bench", "slownet", "--data", tmp_path, because=because)


def test_half_a_hundred_pairs_are_proposed_for_the_overhead() -> None:
    because = "--blocks is -1, but at least 1 must be measured.\n  Use --blocks 50."
    assert_refused("bench", "overhead", "--blocks", -1, because=because)


@pytest.mark.processes
def test_a_narrow_screen_shows_every_word_and_figure_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.screen, "width", 80)
    monkeypatch.setattr(bench, "ALLREDUCE", trials(1e3))
    ended = weft_command("bench", "allreduce", "--blocks", 2)
    assert max(map(len, ended.out.splitlines())) <= 80
    for whole in ("contender", "2x64KiB", "rival", "95 % low", "95 % high", "MISSED"):
        assert whole in ended.out
    assert "…" not in ended.out


def recovery_report() -> dict[str, object]:
    """Of Weft with one bar missed, and of a rival that is not there."""
    figures = {
        "kills": 6,
        "kills_missed": 1,
        "next_p50_s": 0.105,
        "next_p99_s": 0.61,
        "full_p50_s": 0.5,
        "full_p99_s": None,
        "batches_lost": 1.5,
        "samples_lost": 48.0,
        "samples_per_s": 1_800.0,
        "samples_per_s_undisturbed": [1_900.0, 2_100.0],
        "goodput": 0.9,
        "goodput_calm": 0.925,
        "goodput_foretold": 0.875,
        "accuracy": 0.9875,
        "accuracy_undisturbed": [0.99, None],
        "bars": {"goodput": False, "next_p50_s": True},
    }
    rows = [{"contender": "weft allreduce", **figures}, {"contender": "torchft", "missing": "absent\n  at all"}]
    return {"unit": "4 workers", "rows": rows, "ratios": {}}


@pytest.mark.parametrize("width", [80, 140])
def test_recovery_is_measured_shown_and_written(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def measured(course: object, names: object, tell: object) -> dict[str, object]:
        asked.extend((course, names))
        return recovery_report()

    monkeypatch.setattr(bench, "measure_recovery", measured)
    monkeypatch.setattr(bench.screen, "width", width)
    path, folder = tmp_path / "recovery.json", write_tiny_mnist(tmp_path)
    options = ("--data", folder, "--seconds", 90, "--every", 5, "--seed", 3, "--torchft", "/its/python")
    ended = weft_command("bench", "recovery", *options, "--contender", "ssp", "--json", path)
    assert ended.code == 0, ended.err
    course, names = asked
    assert (course.data, course.seconds, course.every_s, course.seed, course.torchft_python, names) == (
        *(folder, 90, 5, 3, "/its/python"),
        ["ssp"],
    )
    seconds = ("105.0 ms", "610.0 ms", "500.0 ms", "none")
    for shown in (*seconds, "6 of 7", "1.5", "48", "1,800", "2,000", "90.0%", "87.5%", "98.75%", "99.00%"):
        assert shown in ended.out
    assert "MISSED" in ended.out
    assert "absent" in ended.out
    assert "at all" not in ended.out
    assert json.loads(path.read_text()) == recovery_report()


def test_recovery_needs_mnist(tmp_path: Path) -> None:
    because = f"there is no MNIST in '{tmp_path}'.\n  Name the folder of its four files with --data FOLDER."
    assert_refused("bench", "recovery", "--data", tmp_path, because=because)


@pytest.mark.parametrize(("seconds", "verdict"), [(2.9, "3.0 s met"), (3.1, "3.0 s MISSED")])
def test_starts_are_measured_shown_and_written(
    seconds: float, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def measured(blocks: int, tell: object) -> dict[str, object]:
        asked.append(blocks)
        rows = work_rows(START, START.works[0], {"weft": [seconds] * 3, "torchrun": [2 * seconds] * 3})
        rows[0]["bar_s"] = SECONDS_BAR
        return {"unit": "seconds", "rows": rows, "ratios": {}}

    monkeypatch.setattr(bench, "measure_start", measured)
    path = tmp_path / "start.json"
    ended = weft_command("bench", "start", "--blocks", 3, "--json", path)
    assert (ended.code, asked) == (0, [3])
    assert verdict in ended.out
    assert "1.00 met" in ended.out
    assert [row["contender"] for row in json.loads(path.read_text())["rows"]] == ["weft", "torchrun"]
