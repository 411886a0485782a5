"""weft simulate."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import assert_refused, weft_command
from support.scripts.training_scripts import ARRAYS, ARRAYS_TRAIN, SEEN, write

from weft.config.registry import STRATEGIES

DOCUMENTED = {
    "strategy",
    "workers",
    "seed",
    "trace",
    "virtual_s",
    "steps",
    "samples",
    "samples_per_s",
    "bytes_sent",
    "staleness_mean",
    "staleness_max",
    "consensus",
    "waiting_fraction",
    "final",
    "curve",
}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    SEEN.clear()
    return write(tmp_path, ARRAYS, ARRAYS_TRAIN)


def rows(*arguments: object) -> list[dict[str, Any]]:
    """What --json writes."""
    path = Path("figures.json")
    ended = weft_command("simulate", *arguments, "--json", path)
    assert ended.code == 0
    told = [line for line in ended.err.splitlines() if " is left out: " not in line]
    assert all(" of " in line for line in told), "nothing but which strategy is running, and which cannot"
    return json.loads(path.read_text())


def test_a_simulation_explains_itself_if_asked(script: Path) -> None:
    ended = weft_command(
        "simulate", script, "-n", 4, "--cluster", "edge", "--set", "reduce.collective=auto", "--explain"
    )
    assert ended.code == 0
    assert "4, simulated on 4 hosts like those of cluster 'edge'; they keep step" in ended.out
    assert "the cheapest by formula, with 30.0 ms a message and 2.5 MB/s:" in ended.out


def test_a_table_and_a_trace_are_shown(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 2)
    assert ended.code == 0
    assert all(" of " in line for line in ended.err.splitlines()), "nothing but which strategy is running"
    lines = ended.out.splitlines()
    assert lines[0].strip() == "2 simulated workers, 26 samples, seed 0"
    assert any(line.startswith("│ allreduce │") for line in lines)
    trace, strategy = lines[-1].split()
    assert (len(trace), strategy) == (16, "allreduce")


def test_figures_are_written_with_the_documented_names(script: Path) -> None:
    (row,) = rows(script, "-n", 3, "--strategy", "ssp", "--seed", 4, "--cluster", "edge")
    assert row.keys() >= DOCUMENTED
    assert (row["strategy"], row["workers"], row["seed"], row["samples"]) == ("ssp", 3, 4, 26.0)
    assert row["final"].keys() == {"loss", "total"}
    assert row["curve"][0].keys() == {"virtual_s", "samples", "loss"}


BETWEEN_HOSTS = [name for name in STRATEGIES if name != "hogwild"]


@pytest.mark.slow
def test_several_strategies_give_one_list_and_all_gives_every_one(script: Path) -> None:
    told = rows(script, "-n", 2, "--strategy", "ssp( staleness=1)", "--strategy", "gossip(topology=ring)")
    assert [row["strategy"] for row in told] == ["ssp( staleness=1)", "gossip(topology=ring)"]
    tuning = write(script.parent, ARRAYS, "worker.tune(lr=(0.01, 1.0))\n", ARRAYS_TRAIN)
    assert [row["strategy"] for row in rows(tuning, "-n", 2, "--strategy", "all")] == BETWEEN_HOSTS


REFUSAL = (
    "a population needs hyper-parameters to change, but the script declares none.\n"
    "  Write e.g. worker.tune(lr=(1e-4, 1e-1)) after weft.join."
)


def test_of_all_those_are_left_out_that_the_script_is_not_for(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 2, "--strategy", "all", "--json", "figures.json")
    assert ended.code == 0
    assert f"population is left out: {REFUSAL}" in ended.err
    told = [row["strategy"] for row in json.loads(Path("figures.json").read_text())]
    assert told == [name for name in BETWEEN_HOSTS if name != "population"]


def test_of_all_those_are_left_out_that_the_cluster_is_not_for_with_a_line_for_each(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 2, "--cluster", "edge", "--strategy", "all", "--dry", "--steps", 2)
    assert ended.err.splitlines()[0] == (
        "hogwild is left out: 'hogwild' writes one replica that all workers share, but 2 workers would be spread over "
        "2 hosts, or talk by sockets."
    )
    asked = weft_command("simulate", script, "-n", 2, "--cluster", "edge", "--strategy", "hogwild")
    assert asked.code == 2
    assert "Use 'async_gossip' or 'downpour' there" in asked.err


@pytest.mark.parametrize("strategies", [["population"], ["allreduce", "population"], ["all", "population"]])
@pytest.mark.parametrize("dry", [[], ["--dry"]])
def test_a_strategy_that_is_asked_for_is_not_left_out(script: Path, strategies: list[str], dry: list[str]) -> None:
    options = [option for name in strategies for option in ("--strategy", name)]
    ended = weft_command("simulate", script, "-n", 2, "--steps", 2, *options, *dry)
    assert ended.code == 2
    assert ended.err.endswith(f"ConfigError: {REFUSAL}\n")


def test_without_a_number_the_workers_are_those_of_the_cluster(script: Path) -> None:
    assert rows(script, "--cluster", "edge")[0]["workers"] == 4


def test_a_dry_run_has_no_consensus_and_no_loss(script: Path) -> None:
    (row,) = rows(script, "-n", 2, "--dry")
    assert (row["steps"], row["samples"], row["consensus"], row["final"], row["curve"]) == (6, 26.0, None, {}, [])


def test_steps_end_a_run_early(script: Path) -> None:
    assert rows(script, "-n", 2, "--steps", 2)[0]["steps"] == 2


def test_a_picture_is_drawn(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 2, "--plot", "loss.png")
    assert ended.code == 0
    assert all(" of " in line for line in ended.err.splitlines()), "nothing but which strategy is running"
    assert ended.out.endswith("picture: loss.png\n")
    assert Path("loss.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_arguments_after_two_dashes_are_the_scripts(tmp_path: Path) -> None:
    path = write(tmp_path, "import sys\n", ARRAYS, "assert sys.argv[1:] == ['-n', '9', '--dry']\n", ARRAYS_TRAIN)
    ended = weft_command("simulate", path, "-n", 2, "--", "-n", "9", "--dry")
    assert ended.code == 0
    assert all(" of " in line for line in ended.err.splitlines()), "nothing but which strategy is running"


def test_what_worker_0_prints_is_shown_as_it_is_and_the_others_are_silent(tmp_path: Path) -> None:
    text = "    print(worker.rank, 'says [bold]hello[/bold] :x:')\n"
    ended = weft_command("simulate", write(tmp_path, ARRAYS, ARRAYS_TRAIN, text), "-n", 3)
    assert ended.code == 0
    assert ended.err == "worker 0: 0 says [bold]hello[/bold] :x:\n" * 2
    assert "says" not in ended.out


def test_the_same_command_gives_the_same_figures_and_another_seed_another_trace(script: Path) -> None:
    common = (script, "-n", 4, "--strategy", "gossip", "--cluster", "edge", "--seed")
    first, again, other = (rows(*common, seed)[0] for seed in (7, 7, 8))
    assert first == again
    assert first["trace"] != other["trace"]


def test_command_line_beats_environment_beats_file_beats_script(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ARRAYS.replace("lr=0.1)", "lr=0.1), strategy='push_sum'"), ARRAYS_TRAIN)

    def chosen(*arguments: object) -> Any:
        return rows(script, "-n", 2, *arguments)[0]["strategy"]

    assert chosen() == "push_sum"
    Path("weft.toml").write_text('strategy = "local_sgd"\n')
    assert chosen() == "local_sgd"
    monkeypatch.setenv("WEFT_STRATEGY", "gossip")
    assert chosen() == "gossip"
    assert chosen("--strategy", "ssp") == "ssp"


def test_every_setting_may_come_from_the_file_or_the_environment(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("weft.toml").write_text('cluster = "edge"\nworkers = 3\nsteps = 2\nstrategy = ["ssp", "gossip"]\n')
    monkeypatch.setenv("WEFT_SEED", "9")
    monkeypatch.setenv("WEFT_COLLECTIVE", "ring")
    told = rows(script)
    assert [(row["strategy"], row["workers"], row["steps"], row["seed"]) for row in told] == [
        ("ssp", 3, 2, 9),
        ("gossip", 3, 2, 9),
    ]


def test_parameters_of_the_strategy_may_be_set(script: Path) -> None:
    assert rows(script, "-n", 2, "--set", "strategy.staleness=5", "--strategy", "ssp")[0]["strategy"] == (
        "ssp(staleness=5)"
    )
    because = "--set worker.threads is for weft run and weft compare, not for weft simulate.\n  Leave it out."
    assert_refused("simulate", script, "--set", "worker.threads=2", because=because)


@pytest.mark.parametrize("dry", [[], ["--dry"]])
def test_data_may_be_shared_otherwise_and_rows_say_so(
    script: Path, dry: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = rows(script, "-n", 3, "--share", "proportional", *dry)
    assert (told["strategy"], told["steps"], told["samples"]) == ("allreduce share=proportional", 4, 26)
    monkeypatch.setenv("WEFT_SHARE", "stealing")
    (told,) = rows(script, "-n", 3, "--strategy", "asgd", *dry)
    assert (told["strategy"], told["samples"]) == ("asgd share=stealing", 26)
    (told,) = rows(script, "-n", 3, "--strategy", "asgd", "--share", "static", *dry)
    assert told["strategy"] == "asgd"


def test_of_all_those_are_left_out_whose_workers_cannot_steal(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 3, "--strategy", "all", "--share", "stealing", "--dry")
    assert ended.code == 0
    assert "allreduce is left out: the workers of 'allreduce' wait for each other's steps" in ended.err
    assert "sandblaster is left out: 'sandblaster' hands out the data itself" in ended.err
    assert "asgd share=stealing" in ended.out


def test_a_word_for_shares_that_is_not_known_is_refused(script: Path) -> None:
    ended = weft_command("simulate", script, "--share", "propotional")
    assert (ended.code, ended.err) == (
        2,
        "ConfigError: share 'propotional' is not known.\n  Did you mean 'proportional'?\n",
    )


def test_figures_that_no_file_takes_are_shown(script: Path) -> None:
    ended = weft_command("simulate", script, "-n", 2, "--json", "/dev/full")
    assert ended.code == 0
    told = "--json /dev/full cannot be written: No space left on device; what belongs there comes here\n"
    assert told in ended.err
    assert json.loads(ended.out[ended.out.index("[\n") :])[0]["workers"] == 2


def interrupted(folder: Path, at: int) -> Path:
    """A script of 40 steps on 2 workers whose user presses Ctrl-C before one of them, or (0) before it joins."""
    text = f"""
    import os, signal
    def press(number):
        if number == {at}:
            os.kill(os.getpid(), signal.SIGINT)
    press(0)
    """
    train = """
    for epoch in worker.epochs(1):
        for rows in worker.share(40, batch_size=1):
            SEEN.append(None)
            press(len(SEEN))
            worker.step({"w": w}, loss=0.0)
    """
    SEEN.clear()
    return write(folder, text, ARRAYS, train)


def test_an_interrupted_simulation_says_how_far_it_was_and_shows_the_runs_before_it(script: Path) -> None:
    path = interrupted(script.parent, at=45)
    ended = weft_command("simulate", path, "-n", 2, "--strategy", "ssp", "--strategy", "allreduce", "--json", "a.json")
    assert ended.code == 130
    assert re.search(
        r"\nallreduce: interrupted at step [34] of 40 of all workers, after .* virtual; nothing of it is kept\n$",
        ended.err,
    )
    assert "ssp" in ended.out
    assert [row["strategy"] for row in json.loads(Path("a.json").read_text())] == ["ssp"]


@pytest.mark.parametrize(("verb", "more"), [(("simulate",), ()), (("compare", "--simulate"), ("--strategy", "ssp"))])
def test_an_interrupt_before_the_first_step_says_so(script: Path, verb: tuple[str, ...], more: tuple[str, ...]) -> None:
    ended = weft_command(*verb, interrupted(script.parent, at=0), "-n", 2, "--strategy", "allreduce", *more)
    assert ended.code == 130
    assert re.search(r"allreduce.*: interrupted before its first step\n$", ended.err)


def test_an_interrupted_simulated_comparison_says_how_far_it_was(script: Path) -> None:
    ended = weft_command(
        "compare",
        "--simulate",
        interrupted(script.parent, at=45),
        "-n",
        2,
        "--strategy",
        "ssp",
        "--strategy",
        "allreduce",
    )
    assert ended.code == 130
    assert "allreduce, seed 0 (2 of 2, " in ended.err
    assert re.search(r": interrupted at step [34] of 40 of all workers, after .* virtual; ", ended.err)
    assert ended.err.endswith("what has been run is in comparison.json: the same command goes on with it\n")


def test_kills_are_simulated_by_the_words_of_weft_run(script: Path) -> None:
    (told,) = rows(script, "-n", 4, "--dry", "--steps", 4000, "--chaos", "kill every 200ms seed 7")
    assert len(told["losses"]) >= 2
    assert 0.1 < told["goodput"] < 1.0
    (usual,) = rows(script, "-n", 4, "--dry", "--steps", 4000)
    assert (usual["losses"], usual["goodput"]) == ([], None)
    assert told["samples_per_s"] == pytest.approx(told["goodput"] * usual["samples_per_s"])


def test_kills_with_tensors_are_refused(script: Path) -> None:
    because = "--chaos is simulated without tensors only: newcomers take over no numbers in virtual time.\n  Add --dry."
    assert_refused("simulate", script, "--chaos", "kill every 15s", because=because)
