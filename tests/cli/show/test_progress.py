"""Progress of long commands, also into a pipe."""

import threading
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from support.processes.commands import weft_command
from support.scripts.training_scripts import write

from weft.cli.show import live_run
from weft.cli.show import progress as module
from weft.cli.show.live_view import LiveView
from weft.cli.show.progress import progress
from weft.cli.verbs import bench

SLOW = """
import time
import numpy as np
import weft

time.sleep(0.3)
w = np.zeros(3)
worker = weft.join(arrays={"w": w}, optimizer=weft.SGD(lr=0.1))
for epoch in worker.epochs(2):
    for rows in worker.share(32, batch_size=1):
        time.sleep(0.005)
        worker.step({"w": w}, loss=0.0)
"""


class Heard(StringIO):
    """A pipe that lets go of a waiting test when it has heard a text twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.has_enough = threading.Event()

    def flush(self) -> None:
        if self.getvalue().count(self._text) > 1:
            self.has_enough.set()


@pytest.mark.parametrize("another", [None, "measuring codecs"])
def test_a_plain_line_every_few_seconds_says_what_is_being_done(another: str | None) -> None:
    heard = Heard(another or "measuring")
    with redirect_stderr(heard), progress("measuring", 0.01) as tell:
        if another is not None:
            tell(another)
        assert heard.has_enough.wait(10)
    assert f"0 s  {another or 'measuring'}\n" in heard.getvalue()
    assert "weft progress" not in {thread.name for thread in threading.enumerate()}


def test_what_takes_no_time_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("measuring"):
        pass
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_simulation_into_a_pipe_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = live_run.plain_progress
    monkeypatch.setattr(live_run, "plain_progress", lambda text: plain(text, 0.01))
    ended = weft_command("simulate", write(tmp_path, SLOW), "-n", 2)
    assert ended.code == 0
    assert "  allreduce: starting the script\n" in ended.err
    assert " of 64 steps, " in ended.err


def test_a_run_into_a_pipe_says_that_its_workers_start(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = [0.0]
    with LiveView(2, clock=lambda: now_s[0]) as view:
        now_s[0] = 6.0
        view.tick()
    assert capsys.readouterr().err == "6.0 s  starting the workers\n"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("calibrate", "train.py", "--steps", 2), "measuring train.py"),
        (("bench", "simulator", "--blocks", 1), "simulator: block 1 of 1"),
    ],
)
def test_measuring_commands_say_what_they_measure(
    command: tuple[object, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SLOW)
    monkeypatch.setattr(module.progress.__wrapped__, "__defaults__", (0.01,))  # type: ignore[attr-defined]
    monkeypatch.setattr("weft.cli.verbs.calibrate.codec_speeds", dict)
    monkeypatch.setattr(bench, "measure_simulator", _simulator)
    ended = weft_command(*command)
    assert ended.code == 0, ended.err
    assert f" s  {text}\n" in ended.err


def _simulator(blocks: int, tell: module.Callable[[str], None]) -> dict[str, object]:
    tell(f"simulator: block 1 of {blocks}")
    threading.Event().wait(0.2)
    return {"rows": []}
