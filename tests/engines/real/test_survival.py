"""What a supervisor does when workers are lost: who is lost together, who is killed first, and who comes anew."""

from collections.abc import Callable

import pytest
from support.processes.newcomers import HANDED
from support.processes.records import status_with
from support.processes.sessions import STATUS, joined

from weft.config.on_loss import ON_LOSS, REPLACE, SHRINK, STOP
from weft.data.dealt_again import Reached
from weft.engines.real import timeouts
from weft.engines.real.observer import Observer
from weft.engines.real.session import RunSession
from weft.engines.real.survival import Survival
from weft.engines.real.watchdog import Watchdog
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import Conclude, Failed, Message, ScriptCompleted, Welcome
from weft.runtime.view_messages import (
    Freeze,
    Frozen,
    GoOn,
    LaidOut,
    LookAsked,
    LookTold,
    RestAsked,
    RestAt,
    Resting,
    RestTold,
    ViewTaken,
    ViewTold,
)


class Run:
    """Workers that have joined, what they were sent, and what was done with their processes."""

    def __init__(
        self, on_loss: str = REPLACE, num_workers: int = 3, strategy: str = "allreduce", *, num_late: int = 0
    ) -> None:
        """The last `num_late` of them have not joined."""
        self.sent: list[tuple[int, Message]] = []
        self.killed: list[int] = []
        self.started: list[int] = []
        self.words: list[str] = []
        self.lost: list[int] = []
        self.replaced: list[int] = []
        self.states: dict[int, str] = {}
        self.workers = [WorkerRecord(rank, "mill", 100 + rank) for rank in range(num_workers)]
        self.watchdog = Watchdog(num_workers)
        self.session = RunSession(num_workers, strategy, None, "shm", self._send)
        observer = Observer(on_tell=self.words.append, on_lost=self.lost.append, on_replaced=self.replaced.append)
        self.survival = Survival(
            on_loss,
            lambda: self.workers,
            self.session,
            self.watchdog,
            observer,
            send=self._send,
            end=self.killed.append,
            start=self._start,
            states=lambda: self.states,
        )
        for rank in range(num_workers - num_late):
            self.session.hear(rank, joined())

    def _send(self, rank: int, message: Message) -> None:
        self.sent.append((rank, message))

    def _start(self, rank: int) -> None:
        self.started.append(rank)
        self.workers[rank] = WorkerRecord(rank, "mill", 200 + rank)

    def lay_out(self, *ranks: int) -> "Run":
        for rank in ranks:
            self.survival.hear(self.workers[rank], LaidOut())
        return self

    def die(self, *ranks: int, code: int = -9) -> None:
        for rank in ranks:
            self.workers[rank].is_alive = False
            self.workers[rank].exit_code = code

    def check(self, now_s: float = 0.0) -> list[tuple[int, Message]]:
        """What is sent when the supervisor looks."""
        self.sent.clear()
        self.survival.check(now_s)
        return list(self.sent)

    def settle(self, *newcomers: int) -> None:
        """All members freeze, take the view, and are dealt all."""
        view, members = self.survival.views.view, list(self.survival.views.members)
        for rank in members:
            if rank not in newcomers:
                self.survival.hear(self.workers[rank], Frozen(view, {}))
        for rank in members:
            self.survival.hear(self.workers[rank], ViewTaken(view, Reached(1, {}), {}))
        assert self.survival.views.is_settled

    def answer(self, kind: type[Message], reply: Callable[[Message], Message]) -> None:
        """All that were last sent a message of this kind reply to it."""
        asked = [(rank, message) for rank, message in self.sent if isinstance(message, kind)]
        assert asked
        self.sent.clear()
        for rank, message in asked:
            self.survival.hear(self.workers[rank], reply(message))  # type: ignore[arg-type]

    def lose(self, rank: int) -> None:
        """The others go on without this worker, and a newcomer is started if that is asked for."""
        self.die(rank)
        self.check()
        self.settle()
        self.check()

    def welcome(self, rank: int) -> None:
        """The newcomer lays out, and its view is to be told."""
        self.lay_out(rank)
        self.check()
        self.answer(RestAsked, lambda asked: RestTold(asked.rest, 4, 1))
        self.answer(RestAt, lambda told: Resting(told.rest, told.step))
        for _ in range(2):
            self.answer(LookAsked, lambda asked: LookTold(asked.number or 0, {}, {}, True))
        assert rank in self.survival.views.members


def test_all_that_are_dead_are_lost_together_as_soon_as_the_others_have_laid_out() -> None:
    run = Run(SHRINK, 4).lay_out(0)
    run.die(1, 3)
    assert run.check() == []
    assert run.lost == []
    run.lay_out(2)
    said = run.check()
    assert said[-2:] == [(0, Freeze(2, [1, 3])), (2, Freeze(2, [1, 3]))]
    assert run.lost == [1, 3]
    assert run.words[-2:] == [
        "worker 1 is lost at step 0: killed by signal 9 (SIGKILL); 2 go on",
        "worker 3 is lost at step 0: killed by signal 9 (SIGKILL); 2 go on",
    ]
    assert [worker.rank for worker in run.survival.members()] == [0, 2]
    assert run.check() == [], "they are lost once"


def test_a_loss_was_told_when_all_others_have_frozen() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.die(1)
    run.check()
    run.survival.hear(run.workers[0], Frozen(1, {}))
    assert run.survival.losses.all[0].told_s is None
    run.survival.hear(run.workers[2], Frozen(1, {}))
    assert run.survival.losses.all[0].told_s is not None


def test_who_has_ended_its_process_before_all_had_concluded_is_lost_too() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.workers[1].has_finished = True
    run.die(1, code=0)
    run.check()
    assert run.words[-1] == "worker 1 is lost at step 0: its process ended with code 0; 2 go on"


def test_a_stuck_worker_is_killed_first_and_lost_when_it_is_dead() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.states = {0: "S", 1: "T", 2: "S"}
    assert run.check(0.0) == []
    late_s = timeouts.PROCESS_STOPPED_S + 1.0
    for _ in range(2):
        assert run.check(late_s) == []
        assert run.killed == [1]
    assert run.lost == []
    run.die(1)
    assert run.check(late_s) == [(0, Freeze(1, [1])), (2, Freeze(1, [1]))]
    assert run.survival.losses.all[0].cause == f"its process was stopped for {late_s:.1f} s", "not that it was killed"


@pytest.mark.parametrize("laid_out", [(), (1,), (0, 1)], ids=["nobody", "only itself", "one other"])
def test_a_stuck_worker_is_not_killed_while_the_others_could_not_go_on(laid_out: tuple[int, ...]) -> None:
    run = Run(SHRINK).lay_out(*laid_out)
    run.states = {1: "T"}
    run.check(0.0)
    run.check(timeouts.PROCESS_STOPPED_S + 1.0)
    assert run.killed == []


def test_of_workers_that_are_all_stuck_one_is_left() -> None:
    run = Run(SHRINK).lay_out(0, 1, 2)
    run.states = dict.fromkeys(range(3), "T")
    run.check(0.0)
    run.check(timeouts.PROCESS_STOPPED_S + 1.0)
    assert run.killed == [0, 1]


def test_nothing_is_done_where_a_loss_is_to_stop_the_run() -> None:
    run = Run(STOP).lay_out(0, 1, 2)
    run.states = {2: "T"}
    run.check(0.0)
    run.die(1)
    words = list(run.words)
    assert run.check(timeouts.PROCESS_STOPPED_S + 1.0) == []
    assert (run.lost, run.killed, run.started, run.words) == ([], [], [], words)
    assert len(run.survival.members()) == 3


@pytest.mark.parametrize(("on_loss", "started"), [(SHRINK, []), (REPLACE, [1])])
def test_a_newcomer_is_started_after_a_loss_where_that_is_asked_for(on_loss: str, started: list[int]) -> None:
    run = Run(on_loss).lay_out(0, 1, 2)
    run.die(1)
    run.check()
    assert run.started == [], "not before the view is settled"
    run.settle()
    run.check()
    assert run.started == started


def test_a_newcomer_that_joins_is_welcomed_alone_and_becomes_a_member_when_all_rest() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.sent.clear()
    run.session.hear(1, joined())
    assert run.sent == [(1, Welcome("allreduce", [0, 0, 0]))]
    run.welcome(1)
    assert run.sent == [(0, Freeze(2, [], [1])), (2, Freeze(2, [], [1]))]
    run.settle(1)
    assert [m.members for _, m in run.sent if isinstance(m, ViewTold)] == [[0, 1, 2]] * 3
    run.sent.clear()
    run.survival.hear(run.workers[0], HANDED)
    assert run.sent == [(1, HANDED)]
    assert run.replaced == []
    run.survival.hear(run.workers[1], Resting(0, 5))
    assert run.sent[1:] == [(rank, GoOn()) for rank in range(3)]
    assert run.replaced == [1]
    (loss,) = run.survival.losses.all
    assert loss.replaced_s is not None
    assert run.words[-1] == f"worker 1 is replaced after {loss.replaced_s - loss.detected_s:.1f} s"
    assert [worker.pid for worker in run.survival.members()] == [100, 201, 102]


def test_all_wait_for_a_newcomer_at_the_end_and_it_is_watched_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.settle(1)
    run.sent.clear()
    for rank in (0, 2):
        run.session.hear(rank, ScriptCompleted(STATUS))
    assert run.sent == []
    run.session.hear(1, ScriptCompleted(STATUS))
    assert run.sent == [(rank, Conclude([], [])) for rank in range(3)]
    run.watchdog.hear(status_with(rank=1), 0.0)
    stuck = run.watchdog.stuck(timeouts.WORKER_SILENT_S + 1.0, {}, {})
    assert stuck is not None
    assert stuck.rank == 1


def test_a_newcomer_that_is_lost_as_a_member_is_a_loss_of_its_own_and_is_replaced_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.welcome(1)
    run.settle(1)
    run.lose(1)
    assert run.lost == [1, 1]
    assert [loss.worker for loss in run.survival.losses.all] == [1, 1]
    assert run.started == [1, 1]
    run.welcome(1)
    run.settle(1)
    run.survival.hear(run.workers[1], Resting(0, 5))
    first, second = run.survival.losses.all
    assert first.replaced_s is None, "its newcomer was lost before all went on"
    assert second.replaced_s is not None


def test_a_newcomer_that_failed_is_told_with_its_reason_and_started_again() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    words = len(run.words)
    run.check()
    assert run.words[words:] == [], "it lives"
    run.die(1, code=1)
    run.check()
    assert run.words[words:] == [
        "worker 1 could not be replaced: worker 1 (host mill, pid 201) stopped before it had joined: its process ended "
        "with code 1.\n  Run the script alone with python to see more."
    ]
    assert run.started == [1, 1]
    run.workers[1].failed = Failed("ValueError", "no", "Traceback: line 1", 0, "")
    run.check()
    assert len(run.words) == words + 1, "not before its process has ended"
    run.die(1, code=1)
    run.check()
    assert run.words[-1].startswith("worker 1 could not be replaced: worker 1 (host mill, pid 201) raised ValueError")
    assert run.lost == [1], "it was no member"


def test_a_newcomer_is_killed_when_a_script_has_ended() -> None:
    run = Run().lay_out(0, 1, 2)
    run.lose(1)
    run.session.hear(2, ScriptCompleted(STATUS))
    run.check()
    assert run.killed == [1]
    run.die(1)
    words = list(run.words)
    run.check()
    assert run.words == words, "it was not to come"


@pytest.mark.parametrize("strategy", ["allreduce", "gossip"])
def test_after_a_loss_who_has_ended_leaves_unless_replicas_are_equal(strategy: str) -> None:
    run = Run(SHRINK, strategy=strategy).lay_out(0, 1, 2)
    run.session.hear(2, ScriptCompleted(STATUS))
    run.survival.let_ended_leave()
    assert run.survival.views.view == 0, "nobody is lost"
    run.die(1)
    said = run.check()
    left = [(0, Freeze(2, [1])), (2, Freeze(2, [1]))] if strategy == "gossip" else []
    assert said == [(0, Freeze(1, [1])), (2, Freeze(1, [1])), *left]


@pytest.mark.parametrize("on_loss", ON_LOSS)
def test_others_may_go_on_without_one_that_dies_while_training_begins_if_any_lives(on_loss: str) -> None:
    run = Run(on_loss)
    assert not run.survival.others_may_go_on(run.workers[1]), "it lives"
    run.die(1)
    assert run.survival.others_may_go_on(run.workers[1]) is (on_loss != STOP)
    run.die(0)
    assert run.survival.others_may_go_on(run.workers[1]) is (on_loss != STOP)
    run.die(2)
    assert not run.survival.others_may_go_on(run.workers[1]), "nobody else lives"


def test_others_do_not_go_on_without_one_that_dies_before_all_have_joined() -> None:
    run = Run(SHRINK, num_late=1)
    run.die(1)
    assert not run.survival.others_may_go_on(run.workers[1])
    run.session.hear(2, joined())
    assert run.survival.others_may_go_on(run.workers[1])


def test_others_do_not_go_on_without_one_that_raised_nor_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    run.die(0, 1)
    run.workers[0].failed = Failed("ValueError", "no", "Traceback: line 1", 0, "")
    assert not run.survival.others_may_go_on(run.workers[0])
    assert run.survival.others_may_go_on(run.workers[1])
    monkeypatch.setattr(timeouts, "LAYING_OUT_S", 0.0)
    assert not run.survival.others_may_go_on(run.workers[1])
