"""The `weft` command: its verbs, and how errors leave it."""

import subprocess
import sys
from pkgutil import iter_modules

import pytest
from support.processes.commands import weft_command

import weft
from weft.cli import app as module
from weft.cli import verbs
from weft.cli.app import VERBS
from weft.core.errors import CheckpointError, ConfigError, Deadlock, NodeLost, WeftError


def test_without_a_verb_the_verbs_are_listed() -> None:
    ended = weft_command()
    for verb in VERBS:
        assert f" {verb} " in ended.out + ended.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_verb_has_help(verb: str, flag: str) -> None:
    ended = weft_command(verb, flag)
    assert (ended.code, ended.err) == (0, "")
    assert f"weft {verb}" in ended.out


def test_an_unknown_verb_ends_with_2() -> None:
    ended = weft_command("simulat")
    assert ended.code == 2
    assert "No such command 'simulat'" in ended.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("what to write.\n  Write it."), 2),
        (NodeLost("worker 1 is gone."), 1),
        (Deadlock("nobody moves."), 1),
        (CheckpointError("no folder."), 1),
        (WeftError("something else."), 1),
    ],
)
def test_2_says_that_nothing_was_started_and_1_that_something_failed(
    monkeypatch: pytest.MonkeyPatch, error: WeftError, code: int
) -> None:
    def fail(verbs: object) -> None:
        raise error

    monkeypatch.setattr(module, "app_of", fail)
    ended = weft_command()
    assert (ended.code, ended.out, ended.err) == (code, "", f"{type(error).__name__}: {error}\n")


def test_the_version_is_told() -> None:
    ended = weft_command("--version")
    assert (ended.code, ended.out) == (0, f"weft {weft.__version__}\n")


def test_every_module_of_verbs_is_a_verb() -> None:
    assert {one.name for one in iter_modules(verbs.__path__)} == set(VERBS)


def test_a_verb_does_not_wait_for_the_modules_of_the_others() -> None:
    code = "import sys; sys.argv += ['run']\nfrom weft.cli.app import main\ntry: main()\nfinally: print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert {name for name in ended.stdout.split() if name.startswith("weft.cli.verbs.")} == {"weft.cli.verbs.run"}
