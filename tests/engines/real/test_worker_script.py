"""A worker's script runs as python would run it, and its end is told to the engine."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.engines.real.worker_script import run_script
from weft.runtime.descriptors import Descriptors
from weft.runtime.messages import WorkerJob


class Seat:
    """Remembers what it was told of the script's end."""

    has_joined = True

    def __init__(self) -> None:
        self.told: list[object] = []

    def end(self) -> None:
        self.told.append("ended")

    def fail(self, error: BaseException) -> None:
        self.told.append(error)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a script changes for all of its process is as it was afterwards."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    drawn, drawn_by_numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(drawn)
    np.random.set_state(drawn_by_numpy)


def run(folder: Path, text: str, seed: int = 0) -> Seat:
    """Run this script; the seat that it had."""
    (folder / "beside.py").write_text("VALUE = 42\n")
    (folder / "train.py").write_text(text)
    told: dict[str, Any] = {"slow": 1.0, "transport": "shm", "secret": b"", "owns_core": True, "spin_s": 0.0}
    told |= {"bucket_bytes_max": 1, "outbox_bytes_max": 1, "checks_replay": False, "baseline": None}
    told |= {"steps_max": None, "global_batch": None, "descriptors": Descriptors(3, 4, 5, 6, [])}
    job = WorkerJob(
        rank=0, num_workers=1, seed=seed, script=str(folder / "train.py"), arguments=["--lr", "0.1"], **told
    )
    seat = Seat()
    run_script(job, seat)  # type: ignore[arg-type]
    return seat


def test_a_script_is_main_has_its_arguments_and_finds_what_lies_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seat = run(tmp_path, "import sys\nfrom beside import VALUE\nprint(__name__, sys.argv[1:], VALUE)\n")
    assert capsys.readouterr().out == "__main__ ['--lr', '0.1'] 42\n"
    assert seat.told == ["ended"]


def test_a_seed_gives_the_same_random_numbers_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 0, 1):
        run(tmp_path, "import random\nimport numpy\nprint(random.random(), numpy.random.rand())\n", seed)
    first, again, other = capsys.readouterr().out.splitlines()
    assert first == again != other


def test_a_script_that_raises_has_failed_and_ends_its_process_with_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats: list[Seat] = []
    monkeypatch.setattr(Seat, "fail", lambda self, error: seats.append(self) or self.told.append(str(error)))
    with pytest.raises(SystemExit) as left:
        run(tmp_path, "raise ValueError('no such data')\n")
    assert left.value.code == 1
    assert seats[0].told == ["no such data"]
