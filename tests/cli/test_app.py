"""The `weft` command: its verbs, and how errors leave it."""

import pytest
from support.processes.commands import weft_command

import weft
from weft.cli import app as module
from weft.core.errors import CheckpointError, ConfigError, Deadlock, NodeLost, WeftError

VERBS = ("run", "simulate", "doctor", "calibrate", "strategies", "topology", "secret", "bench")


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
    def fail() -> None:
        raise error

    monkeypatch.setattr(module, "app", fail)
    ended = weft_command()
    assert (ended.code, ended.out, ended.err) == (code, "", f"{type(error).__name__}: {error}\n")


def test_the_version_is_told() -> None:
    ended = weft_command("--version")
    assert (ended.code, ended.out) == (0, f"weft {weft.__version__}\n")
