"""Input that would take all time or memory is refused in a second: exit 2, a sentence or two, no traceback."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes.commands import Ended, weft_command
from support.scripts.training_scripts import write

from weft.core.shortening import CHARACTERS_MAX

LINKS = '[links.between]\nlatency = "1ms"\n'
HOSTS = f"[[hosts]]\n{LINKS}"
DIGITS = "9" * 400


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder, and in a second of this process's own time."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "raise SystemExit('the script ran')\n")
    before = time.process_time()
    yield
    assert time.process_time() - before < 1


def assert_refused_briefly(ended: Ended, because: str) -> None:
    assert (ended.code, ended.out) == (2, ""), ended.err[:CHARACTERS_MAX]
    assert because in ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err) < CHARACTERS_MAX + 100


@pytest.mark.parametrize(
    ("text", "because"),
    [
        (f"[[hosts]]\ncount = 1000000000000\n{LINKS}", "has more than 100,000 workers.\n  Make count or workers"),
        (f"[[hosts]]\nworkers = 1000000000000\n{LINKS}", "has more than 100,000 workers.\n  Make count or workers"),
        (f"[[hosts]]\ncount = 1e12\n{LINKS}", "count of hosts is 1000000000000.0, but must be a whole number, 0 or"),
        (f"[[hosts]]\ncount = {DIGITS}\n{LINKS}", "characters left out) ... 999"),
        (f"[[hosts]]\nspeed = {DIGITS}\n{LINKS}", "but must be a number, 0 or more and at most 1e+18.\n"),
        (f"[[hosts]]\nspeed = 1e-320\n{LINKS}", "is 1e-320, but must be greater than 0: at least 1e-18.\n"),
        (f"[[hosts]]\nspeed = {DIGITS * 13}\n{LINKS}", "has a number that is too long to be read.\n  Shorten it."),
        (f"[[hosts]]\n[links.between]\nlatency = {DIGITS}\n", "but wants a number with one of the units s, ms"),
        ('[[hosts]]\n[links.between]\nlatency = "1e300s"\n', "is '1e300s', but wants a number with one of the units"),
        (f"{HOSTS}[compute]\ncores = {DIGITS}\n", "but must be a whole number, 0 or more and at most 1e+18.\n"),
        (f"{HOSTS}[[stragglers]]\nworker = 0\nfactor = {DIGITS}\n", "but must be a number, 0 or more and at most"),
        ("a = " + "[" * 100_000, "has tables or lists that lie in each other more than 50 deep.\n  Make it flatter."),
        ("a = " + "{a = " * 100_000, "lie in each other more than 50 deep.\n"),
        ("[" + ".".join("a" * 100_000) + "]", "lie in each other more than 50 deep.\n"),
        ("x" * 100_000 + " = 1", "characters left out) ... xxx"),
        ("[[hosts]]\n" * 200_000, "is longer than 1,048,576 bytes.\n  Say of hosts that are alike how many there are"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_cluster_files_that_would_never_end_are_refused(text: str, because: str) -> None:
    Path("lab.toml").write_text(text)
    assert_refused_briefly(weft_command("simulate", "train.py", "-n", 4, "--cluster", "lab.toml"), because)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/null"])
def test_pipes_and_devices_are_no_files_to_read(kind: str) -> None:
    for path in (Path("lab.toml"), Path("weft.toml")):
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(kind)
    assert_refused_briefly(weft_command("run", "train.py"), "weft.toml' is not a regular file.\n  Check the path.")
    Path("weft.toml").unlink()
    ended = weft_command("simulate", "train.py", "--cluster", "lab.toml")
    assert_refused_briefly(ended, "cluster file 'lab.toml' is not a regular file.\n  Check the path.")


def test_a_file_of_gigabytes_is_not_read() -> None:
    with open("weft.toml", "wb") as file:
        file.truncate(20 << 30)
    assert_refused_briefly(weft_command("run", "train.py"), "weft.toml' is longer than 1,048,576 bytes.\n")


@pytest.mark.parametrize("verb", ["run", "simulate"])
@pytest.mark.parametrize(
    ("name", "value", "because"),
    [
        ("workers", "999999999999", "-n is 999999999999, but a run has at most 100,000 workers.\n  Use -n 100000 or"),
        ("workers", DIGITS, "but a run has at most 100,000 workers.\n"),
        ("workers", DIGITS * 13, "but wants a whole number.\n  Write e.g. 4."),
        ("steps", DIGITS, "--steps must be less than 2**63.\n  Leave it out to run the script's own."),
        ("seed", DIGITS, "but must be from 0 to 2**63 - 1.\n"),
        ("strategy", "x" * 100_000, "cannot be read: it has 100,000 characters, but at most 50,000.\n"),
        ("compress", "x" * 100_000, "cannot be read: it has 100,000 characters, but at most 50,000.\n"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_settings_are_read_with_the_same_care(
    monkeypatch: pytest.MonkeyPatch, verb: str, name: str, value: str, because: str
) -> None:
    monkeypatch.setenv(f"WEFT_{name.upper()}", value)
    assert_refused_briefly(weft_command(verb, "train.py"), because)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("a(" * 10_000 + ")" * 10_000, "it is not written like a call"),
        ("(" * 20_000 + "ssp" + ")" * 20_000, "it is not written like a call"),
        ("ssp(staleness=" + "-" * 40_000 + "1)", "it is nested too deeply"),
        ("ssp" + ".b" * 20_000, "it is nested too deeply"),
        ("ssp(staleness=" + "1+" * 20_000 + "1)", "it is nested too deeply"),
        ("ssp(staleness=" + "-" * 800 + "1)", "it is nested too deeply"),
        (f"ssp(staleness={DIGITS})", "it has a number that is not below 2**63"),
        ("ssp(staleness=1e999)", "it has a number that is not below 2**63"),
        (f"gossip(topology=custom([(0, {DIGITS})]))", "it has a number that is not below 2**63"),
        ("ssp(staleness=2**999999999)", "'2 ** 999999999' is not a literal"),
    ],
    ids=lambda value: value[:20],
)
def test_strategies_that_are_nested_without_end_are_refused(text: str, because: str) -> None:
    assert_refused_briefly(
        weft_command("simulate", "train.py", "--strategy", text, "-n", 4), f"cannot be read: {because}"
    )


def test_codecs_in_a_row_without_end_are_refused() -> None:
    ended = weft_command("simulate", "train.py", "--compress", "onebit" + "|onebit" * 7_000)
    assert_refused_briefly(ended, "cannot be read: it is not written like calls with | between them.\n")
