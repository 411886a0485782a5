"""Bad input through the command line: exit 2 and what to write instead, or exit 1 and the script's traceback last."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.processes.commands import assert_refused, weft_command
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, TORCH, TORCH_JOIN, TORCH_TRAIN, write

from weft.cli.show.screen import PACKAGE
from weft.engines.simulated import runner as engine

NEVER_TOUCHED = "raise SystemExit('the script ran')\n"
CUSTOM = "gossip(topology=custom([(0, 1), (2, 3)]))"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("--strategy", "gosip"), "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        (("--strategy", "gossip(topology=rong)"), "topology 'rong' is not known.\n  Did you mean 'ring'?"),
        (
            ("--cluster", "egde"),
            "cluster 'egde' is not known.\n  Did you mean 'edge'? A path to a file ends in .toml.",
        ),
        (("--strategy", "ssp(stalenes=2)"), "strategy 'ssp' has no parameter 'stalenes'.\n  Did you mean 'staleness'?"),
        (("--set", "reduce.collective=buterfly"), "collective 'buterfly' is not known.\n  Did you mean 'butterfly'?"),
        (
            ("--strategy", "gossip(topology=torus(3, 3))", "-n", 8),
            "topology 'torus(3, 3)' has 9 places, but there are 8 workers.\n"
            "  Use 'torus(2, 4)', or 'torus' to let Weft choose the sides.",
        ),
        (
            ("--strategy", "ssp(staleness=-1)"),
            "staleness is -1, but a worker cannot be less than 0 steps ahead.\n"
            "  Use 'ssp(staleness=0)' to stay in step, or 'ssp(staleness=None)' never to wait.",
        ),
        (
            ("--strategy", "local_sgd(period=0)"),
            "period is 0, but workers average after a whole number of steps.\n"
            "  Use 'local_sgd(period=1)' to average after every step.",
        ),
        (
            ("--strategy", "easgd(alpha=0.5)", "-n", 4),
            "alpha is 0.5, but 4 workers together would pull the centre beyond their mean: it is above 0 and at most "
            "0.25 (1 / workers).\n"
            "  Use 'easgd(alpha=0.225)', or leave it out for 0.9 / workers.",
        ),
        (
            ("--strategy", CUSTOM, "-n", 4),
            "topology 'custom' is not connected: no way leads from place 0 to places 2, 3.\n"
            "  Add an edge from a place that can be reached, for example (1, 2).",
        ),
        (
            ("--strategy", "gossip(topology=star, weights=uniform)", "-n", 4),
            "weights='uniform' would bias the mean, because place 0 sends to 3 and place 1 sends to 1.\n"
            "  Use weights='metropolis', which keeps the mean on any undirected graph.",
        ),
        (("-n", 0), "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        (("-n", -3), "-n is -3, but a run needs at least 1 worker.\n  Use -n 1."),
        (("--steps", 0), "--steps is 0, but must be at least 1.\n  Leave it out to run the script's own."),
        (("--seed", -1), "--seed is -1, but must be from 0 to 2**63 - 1.\n  Use --seed 0."),
        (
            ("--json", "none/a.json"),
            "'none/a.json' cannot be written: there is no folder 'none'.\n  Make it first.",
        ),
        (
            ("--plot", "none/a.png"),
            "'none/a.png' cannot be written: there is no folder 'none'.\n  Make it first.",
        ),
        (("--plot", "a.txt"), "--plot 'a.txt' is not a picture.\n  End its name in .png, .svg, .pdf."),
        (("--plot", "a.png", "--dry"), "--plot draws the loss, but --dry computes none.\n  Leave out one of them."),
        (
            ("--cluster", "none.toml"),
            "cluster file 'none.toml' cannot be read: No such file or directory.\n  Check the path.",
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_cannot_run_is_refused_before_the_script_is_touched(
    tmp_path: Path, arguments: tuple[object, ...], because: str
) -> None:
    assert_refused("simulate", write(tmp_path, NEVER_TOUCHED), *arguments, because=because)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("[[hosts]]\ncount = 0\n", "has no workers.\n  Add hosts: [[hosts]] with count = 4 and workers = 1."),
        ("", "has no workers.\n  Add hosts: [[hosts]] with count = 4 and workers = 1."),
    ],
)
def test_a_cluster_without_workers_is_refused(tmp_path: Path, text: str, because: str) -> None:
    Path("lab.toml").write_text(text)
    script = write(tmp_path, NEVER_TOUCHED)
    assert_refused("simulate", script, "--cluster", "lab.toml", because=f"cluster 'lab.toml' {because}")


def test_unknown_keys_are_refused_wherever_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = write(tmp_path, NEVER_TOUCHED)
    Path("lab.toml").write_text("[[hosts]]\nspeeed = 2.0\n")
    because = "lab.toml: [[hosts]] has an unknown key 'speeed'.\n  Did you mean 'speed'?"
    assert_refused("simulate", script, "--cluster", "lab.toml", because=because)
    Path("weft.toml").write_text("clusters = 'edge'\n")
    because = f"'{tmp_path / 'weft.toml'}' has an unknown key 'clusters'.\n  Did you mean 'cluster'?"
    assert_refused("simulate", script, because=because)
    monkeypatch.setenv("WEFT_WORKER", "4")
    because = "the environment (WEFT_...) has an unknown key 'worker'.\n  Did you mean 'workers'?"
    assert_refused("simulate", script, because=because)


def test_a_missing_script_is_refused() -> None:
    assert_refused("simulate", "none.py", because="script 'none.py' does not exist.\n  Check the path.")


def test_a_script_that_never_joins_or_never_steps_is_told_so(tmp_path: Path) -> None:
    script = write(tmp_path, "import weft\n")
    because = (
        f"script '{script}' ended without calling weft.join.\n"
        "  Add worker = weft.join(model, optimizer) before its training loop."
    )
    assert_refused("simulate", script, because=because)
    write(tmp_path, TORCH, TORCH_JOIN)
    because = (
        f"script '{script}' joined but never stepped.\n"
        "  Call optimizer.step() (or worker.step() for arrays) in its training loop."
    )
    assert_refused("simulate", script, "-n", 2, because=because)


def test_a_run_that_will_not_fit_is_refused_with_the_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_bytes", lambda: 2**20)
    script = write(tmp_path, ARRAYS.replace("zeros(3)", "zeros(2**17)"), ARRAYS_TRAIN)
    ended = weft_command("simulate", script, "-n", 64)
    assert ended.code == 2
    assert ended.err == (
        "ConfigError: 64 workers need about 0.2 GiB (4.0 MiB each), but 0.0 GiB are available.\n"
        "  Use -n 1 or fewer, or --dry, which needs no tensors.\n"
    )


@pytest.mark.parametrize(
    ("head", "train"), [(ARRAYS, ARRAYS_TRAIN), (TORCH + TORCH_JOIN, TORCH_TRAIN)], ids=["numpy", "torch"]
)
def test_a_script_that_raises_on_one_worker_ends_with_its_traceback(tmp_path: Path, head: str, train: str) -> None:
    function = (
        "def check(rank, steps):\n    if (rank, steps) == (1, 2):\n        raise ValueError('no [bold] luck')\n\n"
    )
    step = "        check(worker.rank, worker.steps)\n"
    script = write(tmp_path, function, head, train.replace("    worker.report(total=lambda: w.sum())\n", ""), step)
    ended = weft_command("simulate", script, "-n", 3)
    assert (ended.code, ended.out) == (1, "")
    lines = ended.err.splitlines()
    assert lines[:2] == [
        "NodeLost: worker 1 raised ValueError at step 2: no [bold] luck",
        "Traceback (most recent call last):",
    ]
    frames = [line.strip() for line in lines if line.lstrip().startswith("File ")]
    assert [frame.split(", in ")[1] for frame in frames] == ["<module>", "check"]
    assert all(f'File "{script}"' in frame for frame in frames)
    assert PACKAGE not in ended.err
    assert lines[-1] == "ValueError: no [bold] luck"


def test_a_raising_report_ends_with_its_traceback(tmp_path: Path) -> None:
    ended = weft_command("simulate", write(tmp_path, ARRAYS, ARRAYS_TRAIN.replace("w.sum()", "1 / 0")), "-n", 2)
    assert ended.code == 1
    lines = ended.err.splitlines()
    assert lines[0] == "NodeLost: worker 0 raised ZeroDivisionError in a reported callable: division by zero"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert PACKAGE not in ended.err


@pytest.mark.parametrize(
    "command",
    [[str(Path(sys.executable).with_name("weft"))], [sys.executable, "-m", "weft"]],
    ids=["weft", "python -m weft"],
)
def test_the_installed_command_ends_with_2_too(tmp_path: Path, command: list[str]) -> None:
    arguments = ["simulate", str(write(tmp_path, NEVER_TOUCHED)), "--strategy", "gosip"]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "ConfigError: strategy 'gosip' is not known.\n  Did you mean 'gossip'?\n"
