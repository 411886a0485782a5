"""Workers are born in a nursery, and are children of the launcher's own."""

import os
from pathlib import Path

import pytest

from weft.core.errors import NodeLost
from weft.engines.birth import Nursery
from weft.engines.vigil import process_state


def test_workers_are_adopted_hear_their_channel_and_are_waited_for(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('hello')\n")
    with Nursery(script, os.environ) as nursery:
        for _ in range(2):  # one nursery serves several runs
            first, second = nursery.bear(2, [], lambda: None)
            assert first.pid != second.pid
            stat = Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()
            assert int(stat[1]) == os.getpid()
            first.kill()
            first.wait()
            assert first.exit_code == -9
            second.channel.close()  # nobody tells it what to do, so it ends
            second.wait()
            assert second.exit_code not in (0, None)
            for process in (first, second):
                process.channel.close()
                os.close(process.output)
                os.close(process.error)
    assert process_state(nursery._process.pid) == ""


def test_a_nursery_that_ends_is_an_error_that_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    nowhere = {**os.environ, "PYTHONHOME": str(tmp_path)}
    with Nursery(script, nowhere) as nursery, pytest.raises(NodeLost, match="their nursery ended with code 1"):
        nursery.bear(1, [], lambda: None)
    assert "Fatal Python error" in capfd.readouterr().err


def test_waiting_for_workers_can_be_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with Nursery(script, os.environ) as nursery, pytest.raises(KeyboardInterrupt):
        nursery.bear(1, [], interrupt)
