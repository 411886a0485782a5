"""What a supervisor makes of what workers say and of how they end, wherever they are."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from weft.core.errors import ConfigError, NodeLost
from weft.engines.real import timeouts
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.supervisor import Supervisor
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import StackTold
from weft.runtime.messages import Failed, Halt, Halted, Message, ScriptJoined, Welcome
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved

LAYOUT = ["w (2,) float64"]


class Stage(Supervisor):
    """Two workers that say and do what a test wants, a turn at a time."""

    def __init__(
        self,
        script: Path,
        acts: list[tuple[int, Message | None]],
        observer: Observer | None = None,
        brings_back_to: Path | None = None,
    ) -> None:
        super().__init__(RealJob(script=script, num_workers=2, brings_back_to=brings_back_to), observer or Observer())
        self.acts = acts
        """Who says what; None: it dies."""
        self.told: list[tuple[int, Message]] = []
        self.killed: list[int] = []

    def _start(self) -> None:
        self._workers = [WorkerRecord(rank, f"mill-{rank}", 100 + rank) for rank in range(2)]

    def _send(self, rank: int, message: Message) -> None:
        self.told.append((rank, message))
        if isinstance(message, Halt) and rank == 0:  # worker 1 does not listen
            self._take(self._workers[0], Halted(3, "worker 1"))
            self._workers[0].is_alive = False

    def _states(self) -> Mapping[int, str]:
        return {}

    def _end_all(self) -> None:
        for worker in self._workers:
            if worker.is_alive:
                self.killed.append(worker.rank)
                worker.is_alive = False

    def _drain(self) -> None:
        pass

    def _turn(self, timeout_s: float) -> None:
        if self.acts:
            rank, message = self.acts.pop(0)
            if message is None:
                self._workers[rank].is_alive = False
            else:
                self._take(self._workers[rank], message)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.touch()
    return path


def test_a_worker_that_dies_without_a_word_is_named_with_its_host_and_who_waited(script: Path) -> None:
    stage = Stage(script, [(0, ScriptJoined(LAYOUT, 16, None, 0)), (1, None)])
    with pytest.raises(NodeLost, match=r"worker 1 \(host mill-1, pid 101\) stopped before it had joined") as raised:
        stage.run()
    assert "Worker 0 was at step 3, waiting for worker 1." in str(raised.value)
    assert stage.told == [(0, Halt())]


def test_who_does_not_end_when_told_is_killed(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "HALT_S", 0.1)
    stage = Stage(script, [(0, Failed("ValueError", "no", "Traceback: line 1", 7, "computing"))])
    with pytest.raises(NodeLost, match=r"worker 0 .* raised ValueError at step 7: no") as raised:
        stage.run()
    assert raised.value.traceback == "Traceback: line 1"
    assert stage.killed == [1]


def test_all_are_welcome_when_all_have_joined(script: Path) -> None:
    joined = ScriptJoined(LAYOUT, 16, None, 0)
    stage = Stage(script, [(0, joined), (1, joined), (1, None)])
    with pytest.raises(NodeLost):
        stage.run()
    assert [rank for rank, message in stage.told if isinstance(message, Welcome)] == [0, 1]


def test_workers_whose_models_differ_end_the_run_before_it_begins(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "HALT_S", 0.1)
    stage = Stage(script, [(0, ScriptJoined(LAYOUT, 16, None, 0)), (1, ScriptJoined(["w (3,) float64"], 24, None, 0))])
    with pytest.raises(ConfigError, match="Build the same model on every worker"):
        stage.run()
    assert stage.killed == [1]


def test_files_that_workers_saved_elsewhere_come_to_the_folder_of_the_user(script: Path, tmp_path: Path) -> None:
    words: list[str] = []
    stage = Stage(script, [], Observer(on_tell=words.append), brings_back_to=tmp_path)
    stage._start()
    stage.acts = [(0, FilePiece("model", 0, b"abc", True)), (1, FilePiece("/etc/model", 0, b"x", True))]
    stage._turn(0)
    stage._turn(0)
    stage.close()
    assert (tmp_path / "model").read_bytes() == b"abc"
    assert stage.told == [(0, PieceTaken(True)), (1, PieceTaken(False))]
    assert words[0] == "'model' has come from worker 0 on host mill-0"
    assert words[1].startswith("'/etc/model' stays with worker 1 on host mill-1: only files below the folder")


def test_a_model_that_is_not_saved_is_told_of_at_once_and_when_the_run_is_over(script: Path) -> None:
    words: list[str] = []
    stage = Stage(script, [(1, Unsaved("'model' is NOT saved."))], Observer(on_tell=words.append))
    stage._start()
    stage._turn(0)
    stage.close()
    assert words == ["worker 1 on host mill-1: 'model' is NOT saved."]
    assert stage._not_saved == words


def test_a_file_that_nobody_asked_for_is_not_taken(script: Path, tmp_path: Path) -> None:
    stage = Stage(script, [(0, FilePiece("model", 0, b"abc", True))])
    stage._start()
    stage._turn(0)
    assert stage.told == [(0, PieceTaken(False))]
    assert not (tmp_path / "model").exists()


def test_who_keeps_others_waiting_is_said_and_said_again_when_the_run_fails(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "STALL_S", 0.0)
    words: list[str] = []
    asleep = StackTold(12.0, '  File "train.py", line 9, in <module>\n    time.sleep(1000)')
    acts: list[tuple[int, Message | None]] = [
        (0, ScriptJoined(LAYOUT, 16, None, 0)),
        (1, asleep),
        (1, asleep),
        (1, None),
    ]
    with pytest.raises(NodeLost, match=r"worker 1 .* stopped before it had joined") as raised:
        Stage(script, acts, Observer(on_tell=words.append)).run()
    assert len(words) == 1
    assert words[0].startswith("worker 1 (host mill-1, pid 101) has been in one place of its script for 12 s")
    assert "  Worker 0 waits for the others to join.\n" in words[0]
    last = str(raised.value).splitlines()[-1]
    assert (
        last
        == '  Worker 1 was in one place of its script for 12 s: File "train.py", line 9, in <module>: time.sleep(1000).'
    )
