"""Processes of Weft's own: how they are started, and ended if they are stopped."""

import os
import signal
import sys

import pytest

from weft.engines.real import timeouts
from weft.engines.real.child_processes import start, start_apart


def test_orders_come_on_standard_input_and_descriptors_under_their_numbers() -> None:
    readable, writable = os.pipe()
    orders = f"import os, sys\nos.write({writable}, repr((os.getsid(0) == os.getpid(), sys.argv)).encode())\n"
    start_apart(
        "the interpreter", ["code", "-q"], orders.encode(), [writable]
    )  # the interpreter's own module that obeys its input
    os.close(writable)
    told = os.read(readable, 1000).decode()
    os.close(readable)
    assert told.startswith("(True, [")
    assert "os.write" not in told


def test_the_secret_is_not_in_the_environment_of_what_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_SECRET", "ab" * 32)
    monkeypatch.setenv("WEFT_OTHER", "told")
    readable, writable = os.pipe()
    orders = f"import os\nos.write({writable}, repr(sorted(n for n in os.environ if 'WEFT_' in n)).encode())\n"
    start_apart("the interpreter", ["code", "-q"], orders.encode(), [writable])
    os.close(writable)
    told = os.read(readable, 1000).decode()
    os.close(readable)
    assert "WEFT_OTHER" in told
    assert "WEFT_SECRET" not in told


def test_what_is_stopped_is_named_and_ended(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(timeouts, "HELPER_STOPPED_S", 0.1)
    monkeypatch.setattr(timeouts, "HELPER_LOOK_S", 0.02)
    started = start_apart("the run's controller", ["code", "-q"], b"import os\nos.kill(os.getpid(), 19)\n")
    assert started.wait(20) == -9
    told = f"weft: the run's controller (pid {started.pid}) is stopped: it is ended, and the run with it.\n"
    assert f"{told}  Find out who stopped it.\n" in capfd.readouterr().err


def test_one_that_is_killed_before_it_has_its_orders_is_no_error_of_who_starts_it() -> None:
    started = start_apart("nobody", ["weft.there_is_no_such_module"], b"x" * (1 << 20))
    assert started.wait(20) == 1


def test_one_that_is_stopped_before_it_runs_its_program_is_named_and_ended(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timeouts, "HELPER_STOPPED_S", 0.1)
    monkeypatch.setattr(timeouts, "HELPER_LOOK_S", 0.02)
    started = start(
        "the fork server", [sys.executable, "-c", ""], preexec_fn=lambda: os.kill(os.getpid(), signal.SIGSTOP)
    )
    assert started.wait(20) == -signal.SIGKILL
    told = f"weft: the fork server (pid {started.pid}) is stopped before it has begun: it is ended.\n"
    assert f"{told}  Find out who stopped it.\n" in capfd.readouterr().err
