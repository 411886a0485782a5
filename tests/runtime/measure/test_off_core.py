"""Off core: sleeping counts, computing does not."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from threading import Event

import pytest

from weft.runtime.measure import off_core as module
from weft.runtime.measure.off_core import OffCore, Starving


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_sleeping_counts_and_computing_does_not() -> None:
    off_core = OffCore()
    burn(0.05)
    assert off_core.seconds() < 0.02
    Event().wait(0.05)
    assert 0.045 < off_core.seconds() < 0.5
    off_core.restart()
    assert off_core.seconds() < 0.02


def test_where_the_system_keeps_no_account_the_time_on_a_core_alone_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SCHEDSTAT", tmp_path / "none")
    off_core = OffCore()
    Event().wait(0.05)
    assert off_core.seconds() > 0.045


def test_how_long_a_thread_had_no_core_is_on_its_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Starving(threading.get_native_id())
    assert 0 <= real.seconds() < 1000
    monkeypatch.setattr(module, "THREADS", tmp_path)
    assert (Starving(7).seconds(), Starving(7).num_runs()) == (0.0, 0), "the system keeps none"
    account = tmp_path / "7" / "schedstat"
    account.parent.mkdir()
    account.write_text("1000000000 2500000000 42\n")
    starving = Starving(7)
    assert (starving.seconds(), starving.num_runs()) == (2.5, 42)
    account.write_text("1000000000 3500000000 42\n")
    assert starving.seconds() == 3.5


LATE = """
import atexit
atexit.register(lambda: print(starving.seconds() >= 0))  # first, so it runs last
import os
from weft.runtime.measure.off_core import Starving
starving = Starving(os.getpid())
"""


def test_an_account_can_be_read_until_the_process_is_gone() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("True\n", "")
