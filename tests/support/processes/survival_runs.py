"""Workers of a run whose members may change, with the test as their processes."""

from collections.abc import Callable
from typing import Any

from support.processes.sessions import joined, reductions_of
from weft.config.on_loss import REPLACE
from weft.data.share_records import Reached
from weft.engines.real import timeouts
from weft.engines.real.observer import Observer
from weft.engines.real.session import RunSession
from weft.engines.real.survival import Survival, ToSurvival
from weft.engines.real.watchdog import Watchdog
from weft.engines.real.worker_record import WorkerRecord
from weft.runtime.messages import Message
from weft.runtime.view_messages import (
    Frozen,
    LaidOut,
    LookAsked,
    LookTold,
    RestAsked,
    RestAt,
    Resting,
    RestTold,
    ViewTaken,
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
        self.session = RunSession(num_workers, strategy, reductions_of(num_workers), self._send)
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

    def stay(self, states: dict[int, str]) -> None:
        """Their processes are in these states for longer than a stopped one may be."""
        self.states = states
        self.check(0.0)
        self.check(timeouts.PROCESS_STOPPED_S + 1.0)

    def settle(self, *newcomers: int) -> None:
        """All members freeze, take the view, and are dealt all."""
        view, members = self.survival.views.view, list(self.survival.views.members)
        for rank in members:
            if rank not in newcomers:
                self.survival.hear(self.workers[rank], Frozen(view, {}))
        for rank in members:
            self.survival.hear(self.workers[rank], ViewTaken(view, Reached(1, {}), {}))
        assert self.survival.views.is_settled

    def answer(self, kind: type[Message], reply: Callable[[Any], ToSurvival]) -> None:
        """All that were last sent a message of this kind reply to it."""
        asked = [(rank, message) for rank, message in self.sent if isinstance(message, kind)]
        assert asked
        self.sent.clear()
        for rank, message in asked:
            self.survival.hear(self.workers[rank], reply(message))

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
        self.answer(RestAt, lambda told: Resting(0, told.step))
        for _ in range(2):
            self.answer(LookAsked, lambda asked: LookTold(asked.number or 0, {}, {}, True))
        assert rank in self.survival.views.members
