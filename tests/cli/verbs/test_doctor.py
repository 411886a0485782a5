"""weft doctor."""

import time
from pathlib import Path

import pytest
from support.processes.commands import weft_command

from weft.cli.verbs import doctor as module
from weft.engines.diagnose.machine import CHECKS, Finding

FINE = Finding("cores", "ok", "2 usable of 2")
SMALL = Finding("/dev/shm", "warn", "64 MiB free", "in Docker: --shm-size [1g].")
SICK = Finding("eventfd", "bad", "this Python has no os.eventfd", "Use Linux.")


def examined(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> tuple[int, list[str]]:
    monkeypatch.setattr(module, "CHECKS", [lambda finding=finding: finding for finding in findings])
    ended = weft_command("doctor")
    assert ended.err == ""
    return ended.code, [line.rstrip() for line in ended.out.splitlines()]


@pytest.mark.processes
def test_this_machine_is_examined_in_less_than_ten_seconds() -> None:
    began_s = time.monotonic()
    ended = weft_command("doctor")
    assert time.monotonic() - began_s < 10
    assert (ended.code, ended.err) == (0, "")
    assert sum(line.startswith(("ok", "warn")) for line in ended.out.splitlines()) == len(CHECKS)


def test_a_healthy_machine_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, FINE) == (0, ["ok  cores  2 usable of 2", "Real workers can run here."])


def test_a_warning_says_what_to_do_and_ends_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, FINE, SMALL) == (
        0,
        [
            "ok    cores     2 usable of 2",
            "warn  /dev/shm  64 MiB free",
            "                in Docker: --shm-size [1g].",
            "Real workers can run here; worth a look: /dev/shm.",
        ],
    )


def test_a_machine_that_cannot_run_workers_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examined(monkeypatch, SICK, SMALL) == (
        1,
        [
            "BAD   eventfd   this Python has no os.eventfd",
            "                Use Linux.",
            "warn  /dev/shm  64 MiB free",
            "                in Docker: --shm-size [1g].",
            "Real workers will not run here before this is fixed: eventfd.",
        ],
    )


def test_the_readme_says_where_the_secret_comes_from_before_it_names_what_needs_it() -> None:
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text()
    before, _, _ = readme.partition("weft doctor --cluster")
    assert "weft secret new job.secret" in before
    assert "WEFT_SECRET_FILE=job.secret" in before
