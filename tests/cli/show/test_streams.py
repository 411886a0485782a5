"""Standard output and error that are closed, full or read by nobody: runs end well, and figures are not lost."""

import errno
import os
import signal
import subprocess
import sys
from io import StringIO, TextIOBase
from pathlib import Path

import pytest
from support.scripts.training_scripts import write

from weft.cli.show import streams
from weft.cli.show.streams import BROKEN_PIPE_CODE, Enduring, enduring_streams

WEFT = str(Path(sys.executable).with_name("weft"))
TRAIN = """
import numpy as np
import weft

w = np.zeros(2)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for rows in worker.share(8, batch_size=2):
    worker.step({"w": w}, samples=len(rows))
print("a line of worker", worker.rank, flush=True)
worker.report(total=lambda: w.sum())
"""


class Full(StringIO):
    """A stream that takes nothing."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))

    def fileno(self) -> int:
        raise ValueError("it has none")


def test_a_stream_that_is_fine_is_written_to() -> None:
    own, instead = StringIO(), StringIO()
    stream = Enduring(own, "standard output", instead)
    assert stream.writable()
    assert stream.write("figures") == 7
    stream.flush()
    assert (own.getvalue(), instead.getvalue(), stream.isatty(), stream.encoding) == ("figures", "", False, "utf-8")


def test_what_cannot_be_written_goes_to_the_other_stream_after_a_sentence() -> None:
    instead = StringIO()
    stream = Enduring(Full(errno.ENOSPC), "standard output", instead)
    stream.write("figures\n")
    stream.write("more\n")
    told = "standard output cannot be written: No space left on device; what belongs there comes here\n"
    assert instead.getvalue() == told + "figures\nmore\n"


def test_a_stream_that_was_closed_at_the_start_is_another_one() -> None:
    instead = StringIO()
    stream = Enduring(None, "standard output", instead)
    assert (stream.isatty(), stream.encoding) == (False, "utf-8")
    with pytest.raises(OSError, match="standard output is closed"):
        stream.fileno()
    stream.write("figures\n")
    assert instead.getvalue() == "standard output is closed; what belongs there comes here\nfigures\n"
    assert Enduring(None, "standard error").write("lost") == 4


def test_a_broken_pipe_ends_a_list_and_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_run_started", False)
    instead = StringIO()
    with pytest.raises(SystemExit) as left:
        Enduring(Full(errno.EPIPE), "standard output", instead).write("strategies")
    assert (left.value.code, instead.getvalue()) == (BROKEN_PIPE_CODE, "")
    assert Enduring(Full(errno.EPIPE), "standard error").write("a remark") == 8
    streams.a_run_starts()
    Enduring(Full(errno.EPIPE), "standard output", instead).write("figures")
    assert instead.getvalue().endswith("Broken pipe; what belongs there comes here\nfigures")


def test_streams_are_what_they_were_afterwards() -> None:
    before = sys.stdout, sys.stderr
    with enduring_streams():
        assert isinstance(sys.stdout, TextIOBase)
        assert isinstance(sys.stdout, Enduring)
    assert (sys.stdout, sys.stderr) == before


def test_a_real_run_without_standard_output_ends_well_and_shows_its_figures(tmp_path: Path) -> None:
    """Its sockets do not get the numbers of what is closed."""
    command = 'exec "$0" run train.py -n 2 <&- >&-'
    write(tmp_path, TRAIN)
    run = subprocess.run(
        ["sh", "-c", command, WEFT], cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith("standard output is closed; what belongs there comes here\n")
    assert "worker 1 | a line of worker 1" in run.stderr
    assert "In all: 8 samples" in run.stderr


def test_a_run_whose_output_nobody_reads_shows_its_figures_elsewhere(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    write(tmp_path, TRAIN)
    command = [WEFT, "simulate", "train.py", "-n", "2"]
    try:
        run = subprocess.run(
            command, cwd=tmp_path, stdout=writable, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writable)
    assert run.returncode == 0, run.stderr
    assert "standard output cannot be written: Broken pipe; what belongs there comes here\n" in run.stderr
    assert "2 simulated workers, 8 samples, seed 0" in run.stderr


def test_too_few_descriptors_are_told_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, TRAIN)
    command = 'ulimit -n 20; exec "$0" run train.py -n 4'
    run = subprocess.run(
        ["sh", "-c", command, WEFT], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        "TransportError: no more files, sockets or pipes can be opened: Too many open files; "
        "a process may have 20 (ulimit -n).\n"
        "  Raise it: ulimit -n 4096 (which the system's administrator has to allow), or use fewer workers.\n"
    )


@pytest.mark.parametrize(
    "arguments", [["strategies"], ["codecs"], ["topology", "ring"], ["run", "--help"], ["--version"]]
)
def test_a_listing_that_nobody_reads_ends_as_quietly_as_that_of_ls(arguments: list[str]) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    try:
        run = subprocess.run(
            [WEFT, *arguments], stdout=writable, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writable)
    assert (run.returncode, run.stderr) == (128 + signal.SIGPIPE, "")
