"""What runs leave besides their figures: traces, lines of JSON, scalars for TensorBoard."""

import errno
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.oracles.event_files import read_events
from support.oracles.traces import Trace
from support.processes.commands import assert_refused, weft_command
from support.processes.launches import TRAIN
from support.processes.records import status_with

from weft.cli.show.logs import EVERY_S, Logs, numbered
from weft.core.errors import ConfigError, NodeLost
from weft.engines.real.observer import Observer
from weft.observe.records.status import Status
from weft.observe.records.stragglers import Blame

SHORT = (
    TRAIN
    + """
for epoch in worker.epochs(2):
    for rows in worker.share(24, batch_size=2):
        worker.step({"w": w - rows.mean()}, loss=float(rows.mean()))
    worker.report(total=lambda: w.sum())
"""
)
STATUS = status_with(
    time_s=0.5, step=4, samples=8.0, loss=0.5, waiting_s=0.25, staleness_mean=1.0, staleness_max=3.0, bytes_sent=100
)
BLAME = Blame(0, "compute", 20, 0.04, 0.01, 0.05)
ROW: dict[str, Any] = {
    "strategy": "ssp", "workers": 2, "seed": 3, "virtual_s": None, "wall_s": 9.0, "steps": 4, "samples": 8.0,
    "samples_per_s": 1.0, "waiting_fraction": 0.5, "bytes_sent": 7, "staleness_mean": 1.0, "staleness_max": 2.0,
    "consensus": 0.0, "final": {"loss": 0.5}, "reports": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SHORT)


def lines(path: Path = Path("log.jsonl")) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_status_is_logged_every_second_once_all_workers_have_told_theirs() -> None:
    seen: list[Status] = []
    with Logs(log=Path("log.jsonl")) as logs, logs.run("ssp", 2, 1, 1, is_real=True) as run:
        observer = run.watching(Observer(on_status=seen.append))
        told = [(0, 1.5), (1, 1.6), (0, 1.7), (1, 1.6 + EVERY_S - 0.01), (0, 1.6 + EVERY_S), (1, 3.0)]
        for rank, time_s in told:
            observer.on_status(msgspec.structs.replace(STATUS, rank=rank, time_s=time_s, step=10 * rank + 3))
    assert len(seen) == len(told), "whoever looked on before does so still"
    start, *statuses = lines()
    assert start == {"event": "start", "run": "ssp", "workers": 2, "simulated": False}
    assert [(line["event"], line["at_s"]) for line in statuses] == [("status", 1.6), ("status", 1.6 + EVERY_S)]
    assert (statuses[0]["step"], statuses[0]["loss"], statuses[0]["samples"]) == (8, 0.5, 16.0)


def test_reports_and_words_are_logged_as_they_come() -> None:
    said: list[str] = []
    with Logs(log=Path("log.jsonl")) as logs, logs.run("ssp", 1, 1, 1, is_real=True) as run:
        observer = run.watching(Observer(on_tell=said.append))
        observer.on_status(STATUS)
        observer.on_reported({"accuracy": 0.5, "epoch": 2, "wall_s": 0.75, "consensus": None})
        observer.on_tell("stopping after this step")
        observer.on_blame(BLAME)
        _, report, told, blamed = lines()
    assert report == {
        "event": "report", "run": "ssp", "at_s": 0.75, "step": 4, "epoch": 2, "numbers": {"accuracy": 0.5},
        "consensus": None,
    }  # fmt: skip
    assert told == {"event": "told", "run": "ssp", "at_s": 0.5, "text": "stopping after this step"}
    assert said == ["stopping after this step"]
    assert blamed == {"event": "blame", "run": "ssp", "at_s": 0.5, "text": str(BLAME)}


def test_a_short_run_has_one_status_and_its_end() -> None:
    with Logs(log=Path("log.jsonl")) as logs, logs.run("ssp", 1, 1, 1, is_real=True) as run:
        run.watching(Observer()).on_status(STATUS)
        run.end(ROW, None)
    assert [line["event"] for line in lines()] == ["start", "status", "end"]
    assert lines()[-1]["at_s"] == 9.0
    assert lines()[-1]["final"] == {"loss": 0.5}


def test_an_end_just_after_a_status_has_none_of_its_own_because_rates_would_mean_nothing() -> None:
    with Logs(log=Path("log.jsonl")) as logs, logs.run("ssp", 1, 1, 1, is_real=True) as run:
        observer = run.watching(Observer())
        for time_s in (2.0, 2.1):
            observer.on_status(msgspec.structs.replace(STATUS, time_s=time_s))
        run.end(ROW, None)
    assert [line["event"] for line in lines()] == ["start", "status", "end"]


def test_of_a_baseline_messages_are_not_known() -> None:
    with (
        Logs(log=Path("log.jsonl")) as logs,
        logs.run("ddp", 1, 1, 1, is_real=True, counts_messages=False) as run,
    ):
        run.watching(Observer()).on_status(msgspec.structs.replace(STATUS, time_s=2.0))
    _, status = lines()
    assert (status["bytes_sent"], status["staleness_mean"], status["workers"][0]["bytes_sent"]) == (None, None, None)
    assert status["waiting_fraction"] == 0.125


def test_a_failure_is_logged_and_goes_on() -> None:
    with (
        pytest.raises(NodeLost),
        Logs(log=Path("log.jsonl")) as logs,
        logs.run("ssp", 1, 1, 1, is_real=True),
    ):
        raise NodeLost("worker 1 was killed.")
    assert lines()[-1] == {"event": "failed", "run": "ssp", "at_s": 0.0, "text": "worker 1 was killed."}


def test_nobody_looks_on_who_was_not_asked_to() -> None:
    with Logs() as logs, logs.run("ssp", 1, 1, 1, is_real=True) as run:
        observer = Observer()
        assert run.watching(observer) is observer
        run.end(ROW, None)
    assert sorted(path.name for path in Path().iterdir()) == ["train.py"]


def test_runs_have_folders_of_their_own_for_tensorboard() -> None:
    for _ in range(2):
        with Logs(tensorboard=Path("scalars/all")) as logs, logs.run("a/b", 1, 1, 1, is_real=True) as run:
            run.watching(Observer()).on_status(msgspec.structs.replace(STATUS, time_s=2.0))
    folders = sorted(Path("scalars/all").iterdir())
    assert [folder.name for folder in folders] == ["a_b", "a_b (2)"]
    for folder in folders:
        (path,) = folder.iterdir()
        _, moment = read_events(path)
        assert moment.scalars["training/loss"] == 0.5


@pytest.mark.parametrize(
    ("path", "expected"), [("a/trace.json", "a/trace.2.json"), ("trace.json.gz", "trace.2.json.gz")]
)
def test_files_of_several_runs_are_numbered(path: str, expected: str) -> None:
    assert numbered(Path(path), 2, 3) == Path(expected)
    assert numbered(Path(path), 1, 1) == Path(path)


@pytest.mark.parametrize("verb", ["run", "simulate"])
@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            ("--set", "write.trace=trace.txt"),
            "--set write.trace got 'trace.txt', but a trace is a file that ends in .json or .json.gz.\n"
            "  Write e.g. --set write.trace=trace.json.",
        ),
        (
            ("--set", "write.trace=none/trace.json"),
            "'none/trace.json' cannot be written: there is no folder 'none'.\n  Make it first.",
        ),
        (("--set", "write.log=."), "'.' cannot be written: it is a folder.\n  Add the name of a file."),
        (
            ("--set", "write.tensorboard=train.py"),
            "nothing can be written into the folder 'train.py': File exists.\n  Choose another place.",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(
    verb: str, arguments: tuple[str, ...], because: str
) -> None:
    Path("train.py").write_text("raise SystemExit('the script ran')\n")
    assert_refused(verb, "train.py", *arguments, because=because)


@pytest.mark.processes
@pytest.mark.parametrize("verb", [("run", "--transport", "tcp"), ("simulate",), ("simulate", "--dry")])
def test_a_run_leaves_all_that_was_asked_for(verb: tuple[str, ...]) -> None:
    command, *options = verb
    ended = weft_command(
        command, "train.py", "-n", 2, "--strategy", "gossip", *options, "--set", "write.trace=trace.json",
        "--set", "write.log=log.jsonl", "--set", "write.tensorboard=scalars", "--json", "rows.json",
    )  # fmt: skip
    assert ended.code == 0
    assert "trace of gossip: trace.json, for ui.perfetto.dev" in ended.err
    (row,) = json.loads(Path("rows.json").read_text())
    assert [len(lane) > 0 for lane in row["timeline"]] == [True, True]
    trace = Trace(Path("trace.json"))
    clock = "wall_s" if command == "run" else "virtual_s"
    assert trace.about == {
        "strategy": "gossip", "workers": 2, "seed": 0, "clock": clock, "records_dropped": 0, "messages_with_one_end": 0,
    }  # fmt: skip
    assert len(trace.arrows()) > 0
    told = lines()
    assert {line["run"] for line in told} == {"gossip"}
    start, *between, end = told
    assert (start["event"], start["simulated"]) == ("start", command == "simulate")
    assert (end["event"], end["steps"], end["samples"], end["at_s"]) == ("end", 12, 48.0, row[clock])
    assert "status" in {line["event"] for line in between}
    reports = [line for line in between if line["event"] == "report"]
    assert [line["epoch"] for line in reports] == ([] if "--dry" in options else [0, 1])
    assert [line["numbers"] for line in reports] == [{"total": report["total"]} for report in row["reports"]]
    (path,) = Path("scalars/gossip").iterdir()
    scalars = [event.scalars for event in read_events(path)]
    assert any("training/samples_per_s" in each for each in scalars)
    assert any("reported/total" in each for each in scalars) == bool(reports)


def test_of_several_strategies_each_has_a_trace_of_its_own_and_lines_say_whose_they_are() -> None:
    ended = weft_command(
        "simulate", "train.py", "-n", 2, "--strategy", "gossip", "--strategy", "ssp", "--set", "write.trace=t.json.gz",
        "--set", "write.log=log.jsonl",
    )  # fmt: skip
    assert ended.code == 0
    assert "trace of gossip: t.1.json.gz" in ended.err
    assert "trace of ssp: t.2.json.gz" in ended.err
    assert [Trace(Path(f"t.{number}.json.gz")).about["strategy"] for number in (1, 2)] == ["gossip", "ssp"]
    assert [line["run"] for line in lines() if line["event"] == "end"] == ["gossip", "ssp"]
    assert not Path("t.json.gz").exists()


def test_a_trace_that_lacks_something_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.sim.tracing.Tracks.__init__.__defaults__", (5,))
    ended = weft_command("simulate", "train.py", "-n", 2, "--strategy", "gossip", "--set", "write.trace=trace.json")
    lacking = Trace(Path("trace.json")).about["records_dropped"]
    assert lacking > 20
    assert f"trace of gossip: trace.json, for ui.perfetto.dev; {lacking} records of its end are lacking" in ended.err


@pytest.mark.processes
@pytest.mark.parametrize("verb", ["run", "simulate"])
def test_a_log_and_a_trace_on_a_full_disk_are_told_of_once_and_end_no_run(verb: str) -> None:
    Path("trace.1.json").symlink_to("/dev/full")
    ended = weft_command(
        verb, "train.py", "-n", 2, "--strategy", "gossip", "--strategy", "ssp", "--set", "write.log=/dev/full",
        "--set", "write.trace=trace.json", "--json", "rows.json",
    )  # fmt: skip
    assert ended.code == 0
    assert ended.err.count("write.log=/dev/full cannot be written: No space left on device; the run goes on") == 1
    assert "trace of gossip: trace.1.json cannot be written: No space left on device; the run's figures" in ended.err
    assert "trace of ssp: trace.2.json, for ui.perfetto.dev" in ended.err
    assert len(json.loads(Path("rows.json").read_text())) == 2


def full(data: bytes) -> bytes:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_scalars_on_a_full_disk_are_told_of_once_and_other_logs_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Logs(log=Path("log.jsonl"), tensorboard=Path("scalars")) as logs:
        for label in ("ssp", "gossip"):
            with logs.run(label, 1, 1, 1, is_real=True) as run:
                monkeypatch.setattr("weft.observe.logs.tensorboard.record", full)
                run.watching(Observer()).on_status(msgspec.structs.replace(STATUS, time_s=2.0))
                run.end(ROW, None)
    assert capsys.readouterr().err.count("write.tensorboard=scalars cannot be written: No space left on device;") == 1
    assert [line["event"] for line in lines()] == ["start", "status", "end"] * 2
    assert [path.name for path in Path("scalars").iterdir()] == ["ssp"]


def test_a_folder_for_scalars_that_was_taken_away_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Logs(tensorboard=Path("scalars")) as logs:
        Path("scalars").rmdir()
        Path("scalars").touch()
        with logs.run("ssp", 1, 1, 1, is_real=True) as run:
            run.end(ROW, None)
    assert "write.tensorboard=scalars cannot be written: Not a directory; the run goes on without it" in (
        capsys.readouterr().err
    )


def test_the_file_of_a_log_is_closed_when_a_verb_ends() -> None:
    logs = Logs(log=Path("log.jsonl"))
    with pytest.raises(ConfigError), logs:
        raise ConfigError("no such strategy.")
    assert logs._file is not None
    assert logs._file.closed
