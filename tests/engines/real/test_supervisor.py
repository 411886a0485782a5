"""What a supervisor makes of what workers say and of how they end, wherever they are."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.checkpoints.written import plan
from support.processes.records import status_with

from weft.checkpoints.taking import CheckpointPlan
from weft.config.on_loss import SHRINK, STOP
from weft.core.errors import ConfigError, NodeLost, ReplicasDiffer
from weft.data.share_records import Reached
from weft.engines.real import timeouts
from weft.engines.real.job import RealJob
from weft.engines.real.observer import Observer
from weft.engines.real.supervisor import Supervisor
from weft.engines.real.worker_record import WorkerRecord
from weft.observe.records.status import StackTold
from weft.runtime.checkpoint_messages import TakePart
from weft.runtime.messages import (
    Conclude,
    Concluded,
    Failed,
    Halt,
    Halted,
    Message,
    ReplicaTold,
    ScriptCompleted,
    ScriptJoined,
    Welcome,
)
from weft.runtime.seats.returned_files import FilePiece, PieceTaken, Unsaved
from weft.runtime.view_messages import DealAgain, Freeze, Frozen, LaidOut, ViewTaken, ViewTold

LAYOUT = ["w (2,) float64"]


class Stage(Supervisor):
    """Workers that say and do what a test wants, a turn at a time."""

    def __init__(
        self,
        script: Path,
        acts: list[tuple[int, Message | None]],
        observer: Observer | None = None,
        brings_back_to: Path | None = None,
        num_workers: int = 2,
        on_loss: str = STOP,
        checkpoint: CheckpointPlan | None = None,
    ) -> None:
        job = RealJob(
            script=script,
            num_workers=num_workers,
            brings_back_to=brings_back_to,
            on_loss=on_loss,
            checkpoint=checkpoint,
        )
        super().__init__(job, observer or Observer())
        self.acts = acts
        """Who says what; None: it dies."""
        self.told: list[tuple[int, Message]] = []
        self.killed: list[int] = []
        self.states: dict[int, str] = {}

    def _start(self) -> None:
        self._workers = [WorkerRecord(rank, f"mill-{rank}", 100 + rank) for rank in range(self._job.num_workers)]

    def _send(self, rank: int, message: Message) -> None:
        self.told.append((rank, message))
        if isinstance(message, Halt) and rank == 0:  # worker 1 does not listen
            self._take(self._workers[0], Halted(3, "worker 1"))
            self._workers[0].is_alive = False

    def _states(self) -> Mapping[int, str]:
        return self.states

    def _end_one(self, rank: int) -> None:
        self.killed.append(rank)
        self.acts.insert(0, (rank, None))

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
                self._workers[rank].exit_code = -9
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


Acts = list[tuple[int, Message | None]]


def beginning(num_workers: int = 3, *, without: int | None = None) -> Acts:
    """All join and lay out, but for one."""
    joined: Acts = [(rank, ScriptJoined(LAYOUT, 16, None, 0)) for rank in range(num_workers)]
    return [*joined, *((rank, LaidOut()) for rank in range(num_workers) if rank != without)]


def ending(*ranks: int) -> Acts:
    """These end, conclude and leave."""
    ended: Acts = [(rank, ScriptCompleted(status_with(rank=rank, step=9))) for rank in ranks]
    concluded: Acts = [(rank, Concluded(0.0, [])) for rank in ranks]
    return [*ended, *concluded, *((rank, None) for rank in ranks)]


def frozen(view: int, *ranks: int) -> Acts:
    return [(rank, Frozen(view, {})) for rank in ranks]


def taken(view: int, lost: int, *ranks: int) -> Acts:
    """Each has committed as many rounds as its rank, and so has the lost one, as far as it knows."""
    return [(rank, ViewTaken(view, Reached(1, {0: rank}), {lost: Reached(1, {0: rank})})) for rank in ranks]


def begun(script: Path, num_workers: int) -> Stage:
    """Workers that train, and go on without those that are lost."""
    stage = Stage(script, beginning(num_workers), num_workers=num_workers, on_loss=SHRINK)
    stage._start()
    while stage.acts:
        stage._turn(0)
    return stage


@pytest.fixture
def ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is given time to say what it waits for, nor to lay out when another has died."""
    monkeypatch.setattr(timeouts, "HALT_S", 0.0)
    monkeypatch.setattr(timeouts, "LAYING_OUT_S", 0.0)


def test_the_others_go_on_without_a_worker_that_dies_and_the_outcome_tells_of_it(script: Path) -> None:
    words: list[str] = []
    lost: list[int] = []
    died: Acts = [(0, status_with(rank=0, step=7)), (0, None)]
    acts = [*beginning(), *died, *frozen(1, 1, 2), *taken(1, 0, 1, 2), *ending(1, 2)]
    observer = Observer(on_tell=words.append, on_lost=lost.append)
    stage = Stage(script, acts, observer, num_workers=3, on_loss=SHRINK)
    outcome = stage.run()
    (loss,) = outcome.losses
    assert (loss.worker, loss.cause, loss.step) == (0, "killed by signal 9 (SIGKILL)", 7)
    assert loss.told_s is not None
    assert 0.0 < loss.detected_s <= loss.told_s
    assert f"{loss}; 2 go on" in words
    assert lost == [0]
    changes = [(rank, message) for rank, message in stage.told if isinstance(message, Freeze | ViewTold | DealAgain)]
    deal = DealAgain(1, {0: Reached(1, {0: 2})}, {1: Reached(1, {0: 1}), 2: Reached(1, {0: 2})}, 1)
    cuts = {1: {2: 0}, 2: {1: 0}}
    assert changes == [
        *((rank, Freeze(1, [0])) for rank in (1, 2)),
        *((rank, ViewTold(1, [1, 2], [1, 2], cuts[rank], str(loss))) for rank in (1, 2)),
        *((rank, deal) for rank in (1, 2)),
    ]
    assert [status.rank for status in outcome.workers] == [1, 2]
    assert outcome.pids == [101, 102]
    assert (0, Conclude([], [], 1, 1)) not in stage.told
    assert stage.killed == []


def test_when_the_last_worker_that_trains_is_lost_those_that_have_ended_are_asked_for_the_last_checkpoint(
    script: Path, tmp_path: Path
) -> None:
    died: Acts = [(2, None)]
    ended = ending(0, 1)
    acts = [*beginning(), *ended[:2], *died, *frozen(1, 0, 1), *taken(1, 2, 0, 1), *ended[2:]]
    stage = Stage(script, acts, num_workers=3, on_loss=SHRINK, checkpoint=plan(tmp_path))
    stage._start()
    while len(stage.acts) > len(ended) - 2:
        stage._turn(0)
        stage._check()
    orders = [(rank, message) for rank, message in stage.told if isinstance(message, TakePart)]
    assert orders == [(0, TakePart(9, 0, 1)), (1, TakePart(9, 1, 1))]


def test_two_that_die_in_a_turn_are_lost_in_one_view(script: Path) -> None:
    stage = begun(script, 4)
    for rank in (1, 3):
        stage._workers[rank].is_alive = False
    stage.acts = [*frozen(1, 0, 2), *frozen(2, 0, 2), *ending(0, 2)]
    stage._check()
    while stage.acts:
        stage._turn(0)
    outcome = stage._outcome()
    assert [loss.worker for loss in outcome.losses] == [1, 3]
    assert all(loss.told_s is not None for loss in outcome.losses)
    told = [message for _, message in stage.told if isinstance(message, ViewTold)]
    assert [(message.view, message.members) for message in told] == [(2, [0, 2])] * 2


@pytest.mark.usefixtures("ends_at_once")
@pytest.mark.parametrize(
    ("on_loss", "without"), [(STOP, None), (SHRINK, 0)], ids=["not asked for", "before all have laid out"]
)
def test_a_death_ends_the_run_unless_all_train_and_shrinking_is_asked_for(
    script: Path, on_loss: str, without: int | None
) -> None:
    acts = [*beginning(without=without), (1, None)]
    stage = Stage(script, acts, num_workers=3, on_loss=on_loss)
    with pytest.raises(NodeLost, match=r"worker 1 \(host mill-1, pid 101\) stopped after it had joined"):
        stage.run()
    assert not any(isinstance(message, Freeze) for _, message in stage.told)


def test_who_dies_while_training_begins_is_left_behind_when_the_others_have_laid_out(script: Path) -> None:
    acts = [*beginning(without=0), (1, None), (0, LaidOut()), *frozen(1, 0, 2), *ending(0, 2)]
    stage = Stage(script, acts, num_workers=3, on_loss=SHRINK)
    assert [loss.worker for loss in stage.run().losses] == [1]
    assert [rank for rank, message in stage.told if isinstance(message, Freeze)] == [0, 2]


def test_the_outcome_has_the_largest_number_of_unused_samples_that_a_worker_counted(script: Path) -> None:
    acts = [*beginning(2), *ending(0, 1)]
    acts[4:] = [
        (rank, Concluded(0.0, [], {}, 3 - rank)) if isinstance(said, Concluded) else (rank, said)
        for rank, said in acts[4:]
    ]
    assert Stage(script, acts).run().num_unused == 3


@pytest.mark.usefixtures("ends_at_once")
def test_the_last_worker_that_dies_ends_the_run(script: Path) -> None:
    stage = Stage(script, [*beginning(2), (0, None), *frozen(1, 1), (1, None)], on_loss=SHRINK)
    with pytest.raises(NodeLost, match="worker 1 "):
        stage.run()
    assert [loss.worker for loss in stage._survival.losses.all] == [0]


@pytest.mark.usefixtures("ends_at_once")
def test_an_error_of_a_script_ends_the_run_though_it_would_go_on_without_a_lost_worker(script: Path) -> None:
    failed = Failed("ValueError", "no", "Traceback: line 1", 7, "computing")
    stage = Stage(script, [*beginning(), (1, failed), (1, None)], num_workers=3, on_loss=SHRINK)
    with pytest.raises(NodeLost, match=r"worker 1 .* raised ValueError at step 7: no"):
        stage.run()
    assert stage._survival.losses.all == []


def test_a_worker_that_has_said_its_last_word_is_not_lost(script: Path) -> None:
    stage = Stage(script, [*beginning(2), *ending(0, 1)], on_loss=SHRINK)
    assert stage.run().losses == []


def test_a_stopped_worker_is_killed_before_the_others_go_on(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "PROCESS_STOPPED_S", 0.0)
    stage = begun(script, 3)
    stage.states = {0: "S", 1: "T", 2: "S"}
    while not stage.killed:
        stage._check()
    assert stage.killed == [1]
    stage._check()
    assert not any(isinstance(message, Freeze) for _, message in stage.told), "not before it is dead"
    stage._turn(0)
    stage._check()
    assert [message for _, message in stage.told if isinstance(message, Freeze)] == [Freeze(1, [1])] * 2
    assert stage._survival.losses.all[0].cause.startswith("its process was stopped for ")
    assert stage.killed == [1]


@pytest.mark.usefixtures("ends_at_once")
def test_all_that_are_stopped_at_the_same_time_are_killed_but_one_is_left(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "PROCESS_STOPPED_S", 0.0)
    stage = begun(script, 3)
    stage.states = {0: "S", 1: "T", 2: "T"}
    while not stage.killed:
        stage._check()
    assert stage.killed == [1, 2]
    stage.states[0] = "T"
    stage._check()
    with pytest.raises(NodeLost, match=r"worker 0 .* its process is stopped"):
        stage._check()


@pytest.mark.usefixtures("ends_at_once")
def test_replicas_that_turn_out_to_differ_when_a_worker_is_lost_end_the_run(script: Path) -> None:
    looks: Acts = [(rank, ReplicaTold(0, 8, {"w": rank})) for rank in (0, 2)]
    stage = Stage(script, [*beginning(), *looks, (1, None)], num_workers=3, on_loss=SHRINK)
    with pytest.raises(ReplicasDiffer, match="'w' of worker 2 differs from worker 0's"):
        stage.run()
    assert (2, Halt()) in stage.told
