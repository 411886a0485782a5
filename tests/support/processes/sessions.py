"""A run session that is talked to by a test, in place of workers."""

from dataclasses import fields
from typing import Any

from support.processes.records import status_with
from weft.engines.real.reduce_choice import ReductionChoice
from weft.engines.real.session import RunSession
from weft.runtime.messages import Message, ScriptJoined

STATUS = status_with(time_s=1.0, step=5, samples=10.0, doing="ended")
LAYOUT = ["w (3,) float64"]


REDUCTIONS = {field.name for field in fields(ReductionChoice)}


def reductions_of(num_workers: int, **asked: Any) -> ReductionChoice:
    """Those of workers in the shared memory of one host, but for what is asked."""
    plain = {
        "hosts": [0] * num_workers, "transport": "shm", "collective": None, "network": None,
        "bucket_bytes_max": 4 << 20, "on_devices": (), "reduce_place": "auto",
    }  # fmt: skip
    return ReductionChoice(**{**plain, **asked})


class Talk:
    """A conversation, what each worker was sent and what was reported."""

    def __init__(self, num_workers: int = 3, strategy: str | None = None, **options: Any) -> None:
        """`options` are those of the session and of its reductions."""
        asked = {name: options.pop(name) for name in REDUCTIONS & options.keys()}
        self.sent: list[tuple[int, Message]] = []
        self.reports: list[tuple[int, dict[str, float], float | None]] = []
        reductions = reductions_of(num_workers, **asked)
        self.engine = RunSession(num_workers, strategy, reductions, lambda *said: self.sent.append(said), **options)
        self.engine.on_report = lambda *told: self.reports.append(told)
        self.words: list[str] = []
        self.engine.on_tell = self.words.append

    def hear(self, rank: int, message: Message) -> list[tuple[int, Message]]:
        """What is answered to one message, and to whom."""
        self.sent.clear()
        self.engine.hear(rank, message)
        return list(self.sent)

    def lose(self, rank: int) -> list[tuple[int, Message]]:
        """What the others are sent when one is lost."""
        self.sent.clear()
        self.engine.lose(rank)
        return list(self.sent)

    def join(self, *joined: ScriptJoined) -> list[tuple[int, Message]]:
        answers = [self.hear(rank, each) for rank, each in enumerate(joined)]
        assert not any(answers[:-1]), "nobody is welcome before all have joined"
        return answers[-1]


def joined(strategy: str | None = None, port: int = 0, layout: list[str] = LAYOUT, num_bytes: int = 24) -> ScriptJoined:
    return ScriptJoined(layout, num_bytes, strategy, port)
