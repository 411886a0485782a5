"""Options of the script's own: those that stand before -- are refused with the command that was meant."""

import shlex

import pytest
from support.processes.commands import assert_refused, weft_command

from weft.cli.options.script_command import MOVED
from weft.config.options import LEAVES


@pytest.mark.parametrize("verb", ["run", "simulate", "compare", "calibrate"])
def test_an_option_after_the_script_that_is_not_wefts_is_told_to_go_after_two_dashes(verb: str) -> None:
    assert_refused(
        *(verb, "train.py", "--epochs", "3"),
        because=f"'--epochs' is not an option of weft {verb}.\n"
        f"  Put the script's own arguments after --: weft {verb} train.py -- --epochs 3",
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("train.py --lr=0.1 -n 4", "train.py -n 4 -- --lr=0.1"),
        ("train.py -n4 --fast --lr 0.1 --set 'a b=3'", "train.py -n4 --set 'a b=3' -- --fast --lr 0.1"),
        ("-n 2 train.py data --lr -0.5", "-n 2 train.py data -- --lr -0.5"),
        ("train.py --lr 0.1 --explain -- --epochs 3", "train.py --explain -- --lr 0.1 --epochs 3"),
        ("train.py -e 3", "train.py -- -e 3"),
        ("train.py --strategy --lr --lr 3", "train.py --strategy --lr -- --lr 3"),
        ("--epochs 3 train.py", "train.py -- --epochs 3"),
        ("--fast train.py -n 4", "train.py -n 4 -- --fast"),
        ("-n 4 --lr=0.1 --epochs 3 train.py data --set a=3", "-n 4 train.py data --set a=3 -- --lr=0.1 --epochs 3"),
        ("--epochs 3 train.py --config other.py", "train.py -- --epochs 3 --config other.py"),
        ("--epochs 3 train", "train -- --epochs 3"),
        ("--epochs 3 train.py -- --fast", "train.py -- --epochs 3 --fast"),
    ],
)  # fmt: skip
def test_the_corrected_command_keeps_wefts_options_and_moves_the_scripts(given: str, meant: str) -> None:
    ended = weft_command("run", *shlex.split(given))
    assert ended.code == 2
    assert ended.err.splitlines()[1] == f"  Put the script's own arguments after --: weft run {meant}"


@pytest.mark.parametrize("verb", ["run", "compare", "simulate"])
@pytest.mark.parametrize("name", MOVED)
def test_an_option_that_is_one_of_set_now_says_so(verb: str, name: str) -> None:
    ended = weft_command(verb, "train.py", f"{name}=x")
    key = MOVED[name]
    assert ended.code == 2
    if f"weft {verb}" in LEAVES[key].takers:
        now, own = ended.err.splitlines()
        said, example = shlex.split(now.removesuffix("."))[-2:]
        assert now.startswith(f"ConfigError: {name} is now --set ")
        assert (said, example) == ("--set", f"{key}={LEAVES[key].example}")
        assert own == f"  If the script has an option {name}, put it after --."
    else:
        assert f"'{name}' is not an option of weft {verb}" in ended.err


def test_an_option_that_has_moved_is_told_without_a_script_and_not_after_two_dashes() -> None:
    trace = "--trace is now --set write.trace=trace.json.gz.\n  If the script has an option --trace, put it after --."
    assert_refused("run", "--trace", "a.json", because=trace)
    assert_refused(
        *("run", "nowhere.py", "--", "--trace", "a.json"),
        because="script 'nowhere.py' does not exist.\n  Check the path.",
    )


def test_a_slip_of_the_pen_is_told_what_it_may_have_been() -> None:
    ended = weft_command("run", "train.py", "--strateg", "ssp")
    assert ended.err.startswith("ConfigError: '--strateg' is not an option of weft run (did you mean '--strategy'?).\n")


def test_an_unknown_option_before_the_script_is_told_as_one_after_it() -> None:
    before, after = (weft_command("run", *words.split()) for words in ("--strateg ssp a.py", "a.py --strateg ssp"))
    assert before == after


def test_an_unknown_option_without_a_script_is_not_the_scripts() -> None:
    ended = weft_command("run", "--epochs", "3")
    assert ended.code == 2
    assert "No such option" in ended.err
    assert "after --:" not in ended.err


def test_what_stands_after_two_dashes_reaches_the_script_as_it_is() -> None:
    assert_refused(
        *("run", "nowhere.py", "-n", 2, "--", "--epochs", "3", "-n"),
        because="script 'nowhere.py' does not exist.\n  Check the path.",
    )


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_may_be_asked_for_after_the_script(flag: str) -> None:
    ended = weft_command("run", "train.py", flag)
    assert ended.code == 0
    assert "weft run" in ended.out
