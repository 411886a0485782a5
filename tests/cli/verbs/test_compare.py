"""weft compare: from the command line to the report, real and simulated, and what it refuses before anything runs."""

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import Ended, assert_refused, weft_command
from support.processes.launches import TRAIN
from support.scripts.training_scripts import write

SHORT = (
    TRAIN
    + """
if "--fails" in sys.argv and worker.num_workers > 1 and current().rank == 1 and "ssp" in str(current()._strategy()):
    raise ValueError("no ssp, please")
for epoch in worker.epochs(3):
    for rows in worker.share(24, batch_size=2):
        worker.step({"w": w - rows.mean()}, loss=float(rows.mean()))
    worker.report(total=lambda: w.sum(), accuracy=lambda: 0.3 * (epoch + 1))
"""
)
HEAD = "from weft.core.seat import current\n"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path, HEAD, SHORT)


def compared(script: Path, *arguments: object) -> Ended:
    return weft_command("compare", script, "-n", 2, "--report", "out.html", *arguments)


@pytest.mark.processes
def test_real_contenders_end_in_a_page_a_picture_figures_and_words(script: Path) -> None:
    ended = compared(
        script,
        "--strategy",
        "allreduce",
        "--strategy",
        "ssp",
        "--target",
        "accuracy=0.6",
        "--slow",
        "0:2",
        "--seeds",
        2,
    )
    assert ended.code == 0, ended.err
    assert "report: out.html (open it in a browser), out.png, out.json" in ended.out
    told = json.loads(Path("out.json").read_text())
    assert [(each["label"], len(each["runs"]), each["error"]) for each in told["contenders"]] == [
        ("allreduce", 2, None),
        ("ssp", 2, None),
    ]
    run = told["contenders"][0]["runs"][0]
    assert 0 < run["to_target_s"] <= run["seconds"]
    assert (run["samples"], run["final"]["accuracy"]) == (72.0, pytest.approx(0.9))
    assert told["setup"]["slow"] == {"0": 2.0}
    assert Path("out.png").read_bytes()[1:4] == b"PNG"
    page = Path("out.html").read_text()
    assert "allreduce" in page
    assert "http" not in page.replace("http://www.w3.org/", ""), "the page needs no network"


@pytest.mark.processes
def test_the_same_command_again_runs_nothing_and_one_with_another_contender_only_that(script: Path) -> None:
    first = compared(script, "--strategy", "allreduce", "--strategy", "ssp")
    assert first.code == 0, first.err
    before = Path("out.json").read_text()
    again = compared(script, "--strategy", "allreduce", "--strategy", "ssp")
    assert "going on with the runs in out.json" in again.err
    assert "seed 0" not in again.err
    told = [json.loads(text)["contenders"] for text in (before, Path("out.json").read_text())]
    assert told[0] == told[1]
    more = compared(script, "--strategy", "allreduce", "--strategy", "ssp", "--strategy", "gossip")
    assert [line for line in more.err.splitlines() if "seed 0" in line] == ["gossip, seed 0 (3 of 3)"]


@pytest.mark.slow
def test_the_folder_of_a_report_is_made_and_a_folder_alone_is_given_a_page(script: Path) -> None:
    options = ("--strategy", "allreduce", "--strategy", "gossip", "--simulate", "--steps", 2)
    ended = weft_command("compare", script, "-n", 2, "--report", "new/page.html", *options)
    assert ended.code == 0, ended.err
    assert Path("new/page.html").is_file()
    assert weft_command("compare", script, "-n", 2, "--report", "new", *options).code == 0
    assert Path("new/comparison.html").is_file()


@pytest.mark.processes
def test_a_contender_that_fails_is_shown_with_its_error_and_the_others_go_on(script: Path) -> None:
    ended = compared(script, "--strategy", "ssp", "--strategy", "allreduce", "--", "--fails")
    assert ended.code == 0, ended.err
    assert "no ssp, please" in ended.out
    assert "no ssp, please" in Path("out.html").read_text()
    errors = [each["error"] for each in json.loads(Path("out.json").read_text())["contenders"]]
    assert "raised ValueError" in errors[0]
    assert errors[1] is None


@pytest.mark.slow
def test_simulated_contenders_have_virtual_times_that_repeat(script: Path) -> None:
    options = ("--strategy", "allreduce", "--strategy", "gossip", "--simulate", "--cluster", "edge", "--slow", "1:3")
    ended = compared(script, *options, "--baseline", "ddp", "--target", "accuracy=0.6")
    assert ended.code == 0, ended.err
    assert "ddp cannot be simulated and is left out" in ended.err
    first = json.loads(Path("out.json").read_text())
    Path("out.json").unlink()
    assert compared(script, *options, "--target", "accuracy=0.6").code == 0
    again = json.loads(Path("out.json").read_text())
    assert [each["runs"] for each in first["contenders"]] == [each["runs"] for each in again["contenders"]]
    assert first["setup"]["cluster"] == "edge"


def test_without_matplotlib_there_is_all_but_the_picture(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = weft_command("compare", script, "--simulate", "--strategy", "allreduce", "--strategy", "ensemble")
    assert ended.code == 0
    assert "there is no picture, because matplotlib is not installed: pip install 'weft[plot]'" in ended.err
    assert "report: comparison.html (open it in a browser), comparison.json" in ended.out
    assert not Path("comparison.png").exists()


@pytest.mark.processes
def test_a_disk_that_is_full_leaves_the_comparison_on_the_screen(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("write_bytes", "write_text"):
        monkeypatch.setattr(Path, name, full)
    monkeypatch.setattr("weft.cli.verbs.compare.write_png", full)
    ended = compared(script, "--strategy", "allreduce", "--strategy", "gossip", "--simulate")
    assert ended.code == 0, ended.err
    assert "allreduce" in ended.out
    assert "report: " not in ended.out
    why = "cannot be written: No space left on device;"
    assert f"the runs of out.json {why} the same command will make them again\n" in ended.err
    assert f"the report out.html {why} all else is as it should be\n" in ended.err
    assert f"the picture out.png {why} all else is as it should be\n" in ended.err


@pytest.mark.slow
def test_all_leaves_out_what_cannot_be_and_says_so(script: Path) -> None:
    ended = compared(script, "--strategy", "all", "--share", "stealing", "--simulate", "--steps", 2)
    assert ended.code == 0, ended.err
    assert "allreduce share=stealing is left out" in ended.err
    labels = [each["label"] for each in json.loads(Path("out.json").read_text())["contenders"]]
    assert "async_gossip share=stealing" in labels


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (
            ("--target", "acuracy=0.9"),
            "the script does not report 'acuracy', so --target acuracy=0.9 is never reached.\n"
            "  It reports: total, accuracy. Did you mean 'accuracy'?",
        ),
        (
            ("--strategy", "ssp", "--strategy", "ssp(staleness=3)"),
            "'ssp' and 'ssp(staleness=3)' are the same, so there is nothing to compare.\n  Leave one out.",
        ),
        (
            ("--slow", "0:0.5"),
            "--slow 0:0.5 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            ("--slow", "2:4"),
            "--slow 2:4 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (("--seeds", 0), "--seeds is 0, but each contender runs at least once.\n  Use --seeds 1."),
        (
            ("--report", "train.py/out.html"),
            "nothing can be written into the folder 'train.py': File exists.\n  Choose another place.",
        ),
        (
            ("--report", "out.pdf"),
            "--report 'out.pdf' is not a page.\n  End its name in .html; .png and .json are written beside it.",
        ),
        (("--cluster", "edge"), "--cluster is what --simulate simulates.\n  Add --simulate, or leave it out."),
        (
            ("--strategy", "allreduce share=stealing", "--strategy", "ssp"),
            "the workers of 'allreduce' wait for each other's steps, but with --share stealing each makes as many as "
            "it can.\n  Use --share proportional, which keeps the steps of all equal, or a strategy whose workers do "
            "not wait: 'async_gossip', 'ssp(staleness=None)' or 'hogwild'.",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_compared_is_told_before_the_first_run(
    script: Path, arguments: tuple[object, ...], because: str
) -> None:
    assert_refused("compare", script, "-n", 2, *arguments, because=because)


@pytest.mark.processes
def test_every_contender_that_fails_is_a_failure(tmp_path: Path) -> None:
    script = write(tmp_path, TRAIN, "raise ValueError('nothing works')\n")
    ended = compared(script, "--strategy", "ssp", "--strategy", "allreduce")
    assert ended.code == 1
    assert "every contender failed" in ended.err


@pytest.mark.processes
@pytest.mark.parametrize("simulates", [(), ("--simulate",)])
@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("import nowhere\n", 1, "ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:\n", 1, "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(4)\n", 4, "left before it joined: the script called sys.exit(4)"),
        ("pass\n", 2, "  Add worker = weft.join(model, optimizer) before its training loop."),
    ],
)
def test_a_script_that_cannot_start_is_told_once(
    text: str, code: int, last: str, simulates: tuple[str, ...], tmp_path: Path
) -> None:
    ended = compared(write(tmp_path, text), "--strategy", "ssp", "--strategy", "allreduce", *simulates)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.splitlines()[-1].endswith(last)
    assert ended.err.count("the script did not get to weft.join, so no other way is tried\n") == 1
    assert ended.err.count(last) == 1
    assert not Path("out.json").exists()


@pytest.mark.processes
@pytest.mark.parametrize("simulates", [(), ("--simulate",)])
def test_a_comparison_shows_the_help_of_a_script_once(simulates: tuple[str, ...], tmp_path: Path) -> None:
    script = write(tmp_path, "import argparse\nargparse.ArgumentParser().parse_args()\n", TRAIN)
    ended = compared(script, *simulates, "--", "--help")
    assert ended.code == 0
    assert (ended.out + ended.err).count("usage:") == 1
    assert "no other way" not in ended.err
