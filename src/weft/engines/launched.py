"""A worker process as its launcher sees it: what it has said, and whether it lives."""

from weft.engines.birth import Process
from weft.observe.status import Status
from weft.runtime.channel import Channel, Failed, Halted


class Worker:
    """One worker process."""

    def __init__(self, rank: int, process: Process) -> None:
        self.rank = rank
        self.process = process
        self.channel = Channel(process.channel)
        self.status: Status | None = None
        self.has_bad_numbers = False
        """It has had a gradient that was not finite, and that was told."""
        self.failed: Failed | None = None
        self.halted: Halted | None = None
        self.step_told: int | None = None
        self.is_alive = True
        self.has_finished = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.exit_code
