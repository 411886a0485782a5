"""`weft bench start`: how long a contender takes from the command to the first step of the last worker."""

import sys
from collections.abc import Callable
from functools import partial
from signal import SIGTERM
from subprocess import Popen

import pytest

from weft.bench import start
from weft.bench.benchmark import Benchmark, Work
from weft.bench.contender import BenchmarkContender, script_of
from weft.bench.start import SCRIPT, START, Starts, end, environment, measure_start
from weft.core.errors import NodeLost

STEPS = """
import os, sys, time
folder, *afters = sys.argv[1:]
for rank, after_s in enumerate(afters):
    with open(os.path.join(folder, str(rank)), "w") as file:
        file.write(str(time.monotonic() + float(after_s)))
"""


def by_python(code: str, steps_after_s: tuple[float, ...], module: str, num_processes: int, folder: str) -> list[str]:
    return [sys.executable, "-c", code, folder, *map(str, steps_after_s)]


def fake(code: str, *steps_after_s: float, name: str = "fake") -> BenchmarkContender:
    """Its workers seem to make their steps so long after it has started."""
    return BenchmarkContender(name, "module", launcher=partial(by_python, code, steps_after_s))


@pytest.mark.processes
def test_a_start_lasts_until_the_slowest_worker_has_made_its_step() -> None:
    assert 100 < Starts(fake(STEPS, 0.0, 100.0, 50.0), 3).block(2) < 150


@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import sys; print('first'); sys.exit('it could not start')", "ended with exit code 1"),
        (STEPS + "print('first', flush=True); print('it could not start')", "made steps on 1 of 2 workers"),
    ],
)
def test_a_contender_that_does_not_start_is_named_with_its_last_words(code: str, what: str) -> None:
    with pytest.raises(NodeLost) as lost:
        Starts(fake(code, 0.0), 2).block(1)
    message = f"contender 'fake' {what}. Its last words:\n  first\n  it could not start"
    assert str(lost.value) == message


@pytest.mark.processes
def test_a_contender_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Popen[bytes]] = []

    def watched(process: "Popen[bytes]") -> None:
        end(process)
        ended.append(process)

    monkeypatch.setattr(start, "START_S_MAX", 0.01)
    monkeypatch.setattr(start, "end", watched)
    with pytest.raises(
        NodeLost, match=r"^contender 'fake' had not ended after 0 s\. Its last words:\n  It said nothin"
    ):
        Starts(fake("import signal; signal.pause()"), 2).block(1)
    assert [process.poll() for process in ended] == [-SIGTERM]


@pytest.mark.processes
@pytest.mark.parametrize("contender", START.contenders, ids=lambda one: one.name)
def test_every_contender_starts_for_real(contender: BenchmarkContender) -> None:
    assert 0.1 < Starts(contender, 2).block(1) < 60


def test_both_start_the_same_script() -> None:
    launchers: list[Callable[[str, int, str], list[str]] | None] = [one.launcher for one in START.contenders]
    commands = [launcher(SCRIPT, 4, "/folder") for launcher in launchers if launcher is not None]
    script = str(script_of(SCRIPT))
    assert [command[command.index("-m") + 1 :] for command in commands] == [
        ["weft", "run", script, "-n", "4", "--", "weft", "/folder"],
        ["torch.distributed.run", "--standalone", "--nproc-per-node", "4", script, "torchrun", "/folder"],
    ]


def test_files_get_warm_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in environment()
    assert environment()["OMP_NUM_THREADS"] == "1"


@pytest.mark.processes
def test_the_report_has_the_ratio_by_its_rival_and_a_bar_in_seconds() -> None:
    contenders = (fake(STEPS, 10.0, name="weft"), fake(STEPS, 1000.0, name="torchrun"))
    benchmark = Benchmark("start", "s", (Work("4 workers", "cnn", 1),), contenders, START.bars, 0.0)
    told: list[str] = []
    report = measure_start(2, benchmark, told.append)
    assert told == ["start: 4 workers"]
    assert list(report["ratios"]) == ["torchrun"]
    assert 50 < report["ratios"]["torchrun"] < 100
    own, rival = report["rows"]
    assert (own["bar_s"], own["contender"], rival["bar"]) == (3.0, "weft", 1.0)
    assert "bar_s" not in rival
