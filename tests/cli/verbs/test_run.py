"""weft run: what it refuses before anything starts, and what a run leaves on the screen and in its file."""

import inspect
import json
import re
from pathlib import Path

import pytest
from support.processes.commands import assert_refused, weft_command
from support.processes.launches import TRAIN

from weft.cli.verbs.run import run
from weft.config.registry import STRATEGIES

NEVER_TOUCHED = "raise SystemExit('the script ran')\n"
SHORT = (
    TRAIN
    + """
for epoch in worker.epochs(2):
    for rows in worker.share(12, batch_size=2):
        worker.step({"w": w - rows.mean()}, loss=float(rows.mean()))
    worker.report(total=lambda: w.sum())
"""
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("-n", 0), "-n is 0, but a run needs at least 1 worker.\n  Use -n 1."),
        (("--strategy", "gosip"), "strategy 'gosip' is not known.\n  Did you mean 'gossip'?"),
        (
            ("-n", 1, "--strategy", "population"),
            "a population of 1 worker has nobody to learn from.\n"
            "  Use -n 2 or more; to train alone, leave the strategy out.",
        ),
        (("--share", "stolen"), "share 'stolen' is not known.\n  Did you mean 'stealing'?"),
        (
            ("--strategy", "sandblaster", "--share", "proportional"),
            "'sandblaster' hands out the data itself, so --share proportional has nothing to say there.\n"
            "  Leave it out.",
        ),
        (
            ("--set", "shares.every=0"),
            "--set shares.every is '0', but must be at least 1.\n  Leave it out for the default.",
        ),
        (("--transport", "smh"), "transport 'smh' is not known.\n  Did you mean 'shm'?"),
        (("--baseline", "dpp"), "baseline 'dpp' is not known.\n  Did you mean 'ddp'?"),
        (("--set", "reduce.collective=rong"), "collective 'rong' is not known.\n  Did you mean 'ring'?"),
        (
            ("--slow", "9:2"),
            "--slow 9:2 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            ("--slow", "0:0.5"),
            "--slow 0:0.5 wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            ("--set", "worker.hiccups=often"),
            "--set worker.hiccups got 'often', but wants SHARE:FACTOR.\n  Write e.g. --set worker.hiccups=0.1:8.",
        ),
        (
            ("--set", "worker.hiccups=1.5:2"),
            "worker.hiccups=1.5:2 wants a share from 0 to 1 and a factor of at least 1.\n"
            "  Write e.g. worker.hiccups=0.1:8 to let one iteration in ten take 8 times as long.",
        ),
        (
            ("--net", "100mbit"),
            "--net got '100mbit', but wants RATE,DELAY or RATE,DELAY,LOSS.\n  Write e.g. --net 100mbit,10ms.",
        ),
        (
            ("--net", "100mbit,10ms", "--transport", "shm"),
            "--net is for workers that talk by sockets.\n  Use --transport tcp, or leave it out.",
        ),
        (("--slow", "fast"), "--slow got 'fast', but wants WORKER:FACTOR.\n  Write e.g. --slow 0:4."),
        (
            ("--slow", "0:nan"),
            "--slow 0:nan wants a worker from 0 to 1 and a factor of at least 1.\n  Write e.g. --slow 0:4.",
        ),
        (
            ("--set", "data.global_batch=1"),
            "data.global_batch is 1, but 2 workers need at least 1 sample each.\n"
            "  Use --set data.global_batch=2 or more.",
        ),
        (
            ("--set", "worker.treads=2"),
            "--set: option 'worker.treads' is not known.\n  Did you mean 'worker.threads'?",
        ),
        (("--steps", 0), "--steps is 0, but must be at least 1.\n  Leave it out to run the script's own."),
        (
            ("-n", "2..4", "--on-loss", "stop"),
            "-n 2..4 lets the run go on after a loss, but --on-loss stop ends it.\n"
            "  Use --on-loss replace or shrink, or -n 4.",
        ),
        (
            ("-n", "2..4", "--transport", "torch"),
            "-n 2..4 does not go with --transport torch yet.\n  Leave out one of them.",
        ),
        (
            ("-n", "2..4", "--share", "stealing"),
            "-n 2..4 does not go with --share stealing yet.\n  Leave out one of them.",
        ),
        (
            ("-n", "2..4", "--hosts", 2),
            "-n 2..4 lets the run go on after a loss, which --hosts and --on ray do only if asked.\n"
            "  Add --on-loss replace or shrink.",
        ),
        (
            ("--chaos", "kill every 0s"),
            "--chaos is 'kill every 0s', but the interval must be above 0.\n  Write e.g. 'kill every 15s seed 7'.",
        ),
        (
            ("--checkpoint-every", "5steps"),
            "--checkpoint-every says how often checkpoints are written, but not where.\n"
            "  Add --checkpoint and a folder, or leave it out.",
        ),
        (("--json", "none/a.json"), "'none/a.json' cannot be written: there is no folder 'none'.\n  Make it first."),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_cannot_run_is_refused_before_any_process_starts(
    arguments: tuple[object, ...], because: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(NEVER_TOUCHED)
    assert_refused("run", "train.py", *arguments, because=because)


def test_there_are_few_flags_and_all_else_is_an_option_of_set() -> None:
    flags = [option for option in inspect.signature(run).parameters if option not in ("script", "arguments")]
    assert len(flags) == 20


def test_a_missing_script_is_refused() -> None:
    assert_refused("run", "nowhere.py", because="script 'nowhere.py' does not exist.\n  Check the path.")


@pytest.mark.processes
def test_a_run_ends_with_a_table_and_writes_all_figures(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    ended = weft_command(
        "run", "train.py", "-n", 2, "--json", "out.json", "--set", "run.check_replay=true", "--seed", 3
    )
    assert ended.code == 0
    assert "2 workers over shm" in ended.out
    assert "replayed: the peers of 'allreduce' gave the same answers again" in ended.err
    (told,) = json.loads((tmp_path / "out.json").read_text())
    assert (told["strategy"], told["transport"], told["seed"], told["steps"]) == ("allreduce", "shm", 3, 6)
    assert told["samples"] == 24
    assert [report["epoch"] for report in told["reports"]] == [0, 1]
    assert [row["steps"] for row in told["per_worker"]] == [6, 6]
    assert {"wall_s", "copies", "refused", "curve", "final"} <= told.keys()


@pytest.mark.processes
def test_a_run_explains_itself_before_it_begins_if_asked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    ended = weft_command("run", "train.py", "-n", 2, "--transport", "tcp", "--explain", "--steps", 2)
    assert ended.code == 0
    explained, _, rest = ended.out.partition("  result ")
    assert explained.startswith("How this will run:\n  strategy    allreduce: Synchronous SGD")
    assert "  all-reduce  summed over sockets, piece by piece" in explained
    assert "ring " in explained
    assert "2 workers over tcp" in rest
    by_torch = weft_command("run", "train.py", "-n", 2, "--transport", "torch", "--explain", "--steps", 2)
    assert "  all-reduce  summed by torch.distributed (gloo)\n" in by_torch.out
    assert "2 workers over torch" in by_torch.out
    assert "How this will run" not in weft_command("run", "train.py", "-n", 2, "--steps", 2).out


@pytest.mark.processes
def test_several_strategies_are_compared_and_steps_end_every_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    options = ("--strategy", "ssp", "--strategy", "gossip", "--set", "strategy.topology=ring", "--steps", 4)
    refused = weft_command("run", "train.py", *options)
    assert refused.code == 2
    assert "strategy 'ssp' has no parameter 'topology'" in refused.err
    ended = weft_command(
        "run", "train.py", "--strategy", "ssp", "--strategy", "gossip", "--steps", 4, "--json", "a.json"
    )
    assert ended.code == 0
    told = json.loads((tmp_path / "a.json").read_text())
    assert [(each["strategy"], each["steps"]) for each in told] == [("ssp", 4), ("gossip", 4)]


@pytest.mark.processes
def test_data_is_shared_as_asked_and_a_row_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    Path("weft.toml").write_text('share = "stealing"\nstrategy = "asgd"\n')
    assert weft_command("run", "train.py", "-n", 3, "--json", "a.json").code == 0
    (told,) = json.loads((tmp_path / "a.json").read_text())
    assert (told["strategy"], told["samples"]) == ("asgd share=stealing", 24)
    assert sum(row["steps"] for row in told["per_worker"]) == 12


@pytest.mark.processes
def test_arguments_after_two_dashes_are_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT + "print(sys.argv[1:])\n")
    ended = weft_command("run", "train.py", "-n", 1, "--", "--lr", "0.1")
    assert ended.code == 0
    assert "worker 0 | ['--lr', '0.1']" in ended.out


NOTHING_TO_TUNE = (
    "a population needs hyper-parameters to change, but the script declares none.\n"
    "  Write e.g. worker.tune(lr=(1e-4, 1e-1)) after weft.join."
)


@pytest.mark.processes
def test_a_population_of_a_script_that_tunes_nothing_ends_before_it_trains(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    Path("old.json").write_text("of an earlier run")
    ended = weft_command("run", "train.py", "-n", 2, "--strategy", "population", "--json", "old.json")
    assert not Path("old.json").exists(), "nobody takes it for this run's"
    assert ended.code == 2
    assert ended.err.endswith(f"ConfigError: {NOTHING_TO_TUNE}\n")


@pytest.mark.processes
@pytest.mark.parametrize(("asked", "code"), [(["all"], 0), (["all", "population"], 2)])
def test_of_all_those_are_left_out_that_the_script_is_not_for(
    asked: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    only = {name: STRATEGIES[name] for name in ("allreduce", "population")}
    monkeypatch.setattr("weft.config.registry.STRATEGIES", only)
    options = [option for name in asked for option in ("--strategy", name)]
    Path("all.json").write_text("of an earlier run")
    ended = weft_command("run", "train.py", "-n", 2, *options, "--json", "all.json")
    assert ended.code == code
    if code:
        assert ended.err.endswith(f"ConfigError: {NOTHING_TO_TUNE}\n")
    else:
        assert f"population is left out: {NOTHING_TO_TUNE}" in ended.err
    told = [row["strategy"] for row in json.loads(Path("all.json").read_text())]
    assert told == ["allreduce"], "what has been run is written, also if the next one fails"


@pytest.mark.processes
def test_a_script_that_leaves_with_a_code_gives_the_command_its_code_and_names_the_worker(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT + "\nif worker.rank == 1:\n    raise SystemExit(3)\n")
    ended = weft_command("run", "train.py", "-n", 2)
    assert ended.code == 3
    assert re.search(
        r"NodeLost: worker 1 \(host .*, pid \d+\) left at step \d+: the script called sys.exit\(3\)\n", ended.err
    )
    assert "Traceback" not in ended.err
    assert "ScriptLeft" not in ended.err


PARSES = """
import argparse, sys
parser = argparse.ArgumentParser(prog="train")
parser.add_argument("--leave")
options = parser.parse_args()
if options.leave:
    sys.exit(options.leave)
"""
USAGE = "usage: train [-h] [--leave LEAVE]"


@pytest.mark.processes
@pytest.mark.parametrize(("verb", "mark"), [("run", "worker 0 | "), ("simulate", "worker 0: ")])
def test_the_help_of_a_script_is_shown_once_and_is_no_failure(verb: str, mark: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PARSES + SHORT)
    ended = weft_command(verb, "train.py", "-n", 3, "--", "--help")
    said = ended.out if verb == "run" else ended.err
    assert ended.code == 0
    assert said.startswith(f"{mark}{USAGE}\n")
    assert (ended.out + ended.err).count("usage:") == 1
    assert all(line.startswith(mark) for line in said.splitlines())


@pytest.mark.processes
@pytest.mark.parametrize(("verb", "mark"), [("run", "worker 0 | "), ("simulate", "")])
def test_what_argparse_says_of_wrong_arguments_is_all_that_is_said(verb: str, mark: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PARSES + SHORT)
    ended = weft_command(verb, "train.py", "-n", 3, "--", "--nosuch")
    told = f"{mark}{USAGE}\n{mark}train: error: unrecognized arguments: --nosuch\n"
    assert (ended.code, ended.out, ended.err) == (2, "", told)


@pytest.mark.processes
@pytest.mark.parametrize("verb", ["run", "simulate"])
def test_a_message_with_which_a_script_leaves_is_told_once_without_a_traceback(verb: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PARSES + SHORT)
    ended = weft_command(verb, "train.py", "-n", 2, "--", "--leave", "no data here")
    assert (ended.code, ended.out) == (1, "")
    assert re.fullmatch(r"NodeLost: worker 0 (\(.*\) )?left before it joined: no data here\n", ended.err)


def test_a_simulated_script_that_leaves_after_steps_keeps_its_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT + "\nraise SystemExit(3)\n")
    ended = weft_command("simulate", "train.py", "-n", 2)
    assert ended.code == 3
    assert re.fullmatch(r"NodeLost: worker \d left at step \d: the script called sys.exit\(3\)\n", ended.err)
