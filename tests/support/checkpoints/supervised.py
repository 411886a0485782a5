"""A run that takes checkpoints, of which the test is the workers."""

from pathlib import Path

import numpy as np

from support.checkpoints.disks import QuickDisk
from support.checkpoints.written import facts
from weft.checkpoints.disk import Disk
from weft.checkpoints.forms import Packing
from weft.checkpoints.interval import CheckpointInterval
from weft.checkpoints.manifest import FORMAT, Manifest, versions
from weft.checkpoints.taking import CheckpointPlan
from weft.checkpoints.writing import Position, write_part
from weft.engines.real.rest import RunRest
from weft.engines.real.run_checkpoints import RunCheckpoints
from weft.engines.real.views import Views
from weft.runtime.checkpoint_messages import CheckpointDue, PartCopied, PartLost, PartWritten, TakePart
from weft.runtime.messages import Message
from weft.runtime.view_messages import LookAsked, LookTold, RestAsked, Resting, RestTold

Said = list[tuple[int, Message]]
BY_STEPS = CheckpointInterval(steps=10)
BY_SECONDS = CheckpointInterval(seconds=60.0)
PHASES = ["asking", "stopping", "looking", "copying", "writing"]


class Run:
    """A run of two workers or more, of which the test is the workers; the clock is the test's."""

    def __init__(
        self,
        folder: Path,
        every: CheckpointInterval = BY_STEPS,
        num_workers: int = 2,
        disk: Disk | None = None,
        resume: Path | None = None,
        steps_max: int | None = None,
    ) -> None:
        self.folder, self.disk = folder, disk or QuickDisk()
        self.words: list[str] = []
        self._sent: Said = []
        self.views = Views(num_workers, lambda *said: self._sent.append(said))
        for rank in range(num_workers):
            self.views.lay_out(rank)
        self.rest = RunRest(self.views, lambda *said: self._sent.append(said))
        whole = CheckpointPlan(str(folder), facts(steps_max=steps_max), every, None if resume is None else str(resume))
        send = lambda *said: self._sent.append(said)  # noqa: E731
        self.checkpoints = RunCheckpoints(whole, self.views, self.rest, send, self.words.append, self.disk)
        self.number = 0
        """The number of the rest that was last asked for."""
        self.look = 0
        self.orders: dict[int, TakePart] = {}
        """What each worker was last ordered to copy."""

    def said(self) -> Said:
        sent, self._sent = self._sent, []
        for rank, message in sent:
            if isinstance(message, RestAsked):
                self.number = message.rest
            elif isinstance(message, LookAsked):
                self.look = message.number
            elif isinstance(message, TakePart):
                self.orders[rank] = message
        return sent

    def turn(self, now_s: float = 0.0, *, is_ending: bool = False) -> Said:
        self.checkpoints.turn(now_s, is_ending=is_ending)
        return self.said()

    def hear(self, rank: int, message: CheckpointDue | PartCopied | PartWritten | PartLost) -> Said:
        self.checkpoints.hear(rank, message)
        return self.said()

    def come_to(self, phase: str, step: int = 10) -> "Run":
        """A checkpoint is due, and is taken as far as `phase`."""
        members = list(self.views.members)
        self.turn()
        for rank in members:
            self.hear(rank, CheckpointDue(True))
        assert self.turn() == [(rank, RestAsked(self.number, True)) for rank in members]
        for rank in members if phase != "asking" else ():
            self.rest.hear(rank, RestTold(self.number, step, 1, True), 0.0)
        for rank in members if phase not in PHASES[:2] else ():
            self.rest.hear(rank, Resting(self.number, step), 0.0)
        for _ in range(2) if phase not in PHASES[:3] else ():
            self.said()
            for rank in members:
                self.rest.hear(rank, LookTold(self.look, {}, {}, True), 0.0)
        self.said()
        for rank in members if phase == "writing" else ():
            self.hear(rank, self.copied(rank))
        return self

    def copied(self, rank: int) -> PartCopied:
        return PartCopied(self.orders[rank].number)

    def written(self, rank: int) -> PartWritten:
        """A worker writes its part."""
        order = self.orders[rank]
        packing = Packing(lambda value: None)
        state = packing.pack({"w": np.full(3, rank)}, "worker")
        part = write_part(
            self.folder, order.step, order.place, Position(0, 1, 8.0), state, packing.tensors, QuickDisk()
        )
        manifest = Manifest(FORMAT, order.step, 3, facts(9), versions(), [], [])
        return PartWritten(order.number, part, None if order.place else manifest)

    def write_all(self) -> "Run":
        for rank in list(self.orders):
            self.hear(rank, self.written(rank))
        return self

    def lose(self, rank: int) -> Said:
        self.checkpoints.lose()
        said = self.said()
        self.views.lose(rank, f"worker {rank} died")
        return said
