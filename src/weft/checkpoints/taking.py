"""One worker's checkpoints: when one is due, who writes what of it, and the one from which the run goes on."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from weft.checkpoints.disk import FULL, Disk
from weft.checkpoints.folder import name_of
from weft.checkpoints.forms import Form
from weft.checkpoints.interval import EVERY, CheckpointInterval
from weft.checkpoints.manifest import FORMAT, Manifest, RunFacts, WorkerPart, read_manifest, versions
from weft.checkpoints.tensor_file import TensorBytes, read_tensors
from weft.checkpoints.writing import Position, abandon, complete, mark_finished, write_part
from weft.core.errors import CheckpointError


class CheckpointPlan(Struct, frozen=True):
    """What a worker is told of the checkpoints of its run."""

    folder: str
    facts: RunFacts
    every: CheckpointInterval = EVERY
    resume: str | None = None
    """The folder of the checkpoint from which the run goes on, checked already; None: it begins anew."""


HandIn = Callable[[int, WorkerPart, Manifest | None], None]
"""Takes a step, a worker's part of its checkpoint and, of worker 0, the manifest without parts."""
Lose = Callable[[int, str], None]
"""Takes the step of a part that the disk could not take, and why."""


class Checkpoints:
    """The checkpoints of one worker. With `hand_in`, somebody else completes them when all workers' parts are there."""

    def __init__(
        self,
        plan: CheckpointPlan,
        rank: int,
        tell: Callable[[str], None],
        hand_in: HandIn | None = None,
        lose: Lose | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.plan = plan
        self.tell = tell
        self._folder = Path(plan.folder)
        self._rank = rank
        self._hand_in = hand_in
        self._lose = lose
        self._disk = disk or Disk()
        self.last_step: int | None = None
        """The step of the last checkpoint that was taken, or from which the run goes on."""
        self._last_s = time.monotonic()
        self._asked_at: int | None = None
        self.on_end: Callable[[bool], None] = lambda was_stopped: None
        """Called when the script has ended in order; with True if it was told to leave early."""

    def stored(self) -> tuple[Manifest, WorkerPart, Mapping[str, TensorBytes], Mapping[str, TensorBytes]] | None:
        """The checkpoint to go on from: its manifest, this worker's part, that part's tensors, and worker 0's."""
        if self.plan.resume is None:
            return None
        path = Path(self.plan.resume)
        manifest = read_manifest(path)
        mine, first = manifest.workers[self._rank], manifest.workers[0]
        tensors = read_tensors(path / first.file.name, first.file.size, first.file.tensors)
        own = tensors if self._rank == 0 else read_tensors(path / mine.file.name, mine.file.size, mine.file.tensors)
        self.last_step = manifest.step
        return manifest, mine, own, tensors

    def ask_at(self, step: int) -> None:
        """Take one when `step` steps are made: all workers have been told the same."""
        self._asked_at = step

    def is_due(self, step: int, num_epochs: int | None) -> bool:
        """Whether to take one now; `num_epochs` is how many epochs have ended, None within one."""
        every, last = self.plan.every, self.last_step or 0
        if step <= last:
            return False
        if self._asked_at is not None and step >= self._asked_at > last:
            return True
        if every.steps is not None:
            return step - step % every.steps > last
        if every.epochs is not None:
            return num_epochs is not None and num_epochs % every.epochs == 0
        return self._hand_in is None and time.monotonic() - self._last_s >= (every.seconds or 0.0)

    def take(
        self,
        step: int,
        position: Position,
        state: Form,
        tensors: Mapping[str, TensorBytes],
        num_epochs: int | None,
        layout: list[str],
    ) -> None:
        """Write this worker's part, and complete the checkpoint or hand the part in. A full disk is told of."""
        self.last_step, self._last_s = step, time.monotonic()
        manifest = Manifest(FORMAT, step, num_epochs, self.plan.facts, versions(), layout, [])
        try:
            part = write_part(self._folder, step, self._rank, position, state, tensors, self._disk)
            if self._hand_in is None:
                complete(self._folder, manifest, [part], self._disk)
                return
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._fail(step, error.strerror or str(error))
            return
        self._hand_in(step, part, manifest if self._rank == 0 else None)

    def _fail(self, step: int, why: str) -> None:
        if self._lose is not None:
            self._lose(step, why)
            return
        abandon(self._folder, step, self._disk)
        self.tell(not_written(self._folder, step, why))

    def refuse(self, step: int, error: CheckpointError) -> None:
        """A model that is not fit to be kept: this step has no checkpoint, which is told."""
        self.last_step, self._last_s = step, time.monotonic()
        why = str(error).partition("\n")[0]
        if self._lose is not None:
            self._lose(step, why)
        else:
            self.tell(not_written(self._folder, step, why))

    def finish(self) -> None:
        """The script has ended in order, and its last checkpoint says so from now on."""
        if self._hand_in is not None or self.last_step is None:
            return
        path = self._folder / name_of(self.last_step)
        if path.is_dir():
            try:
                mark_finished(path, self._disk)
            except OSError as error:
                self.tell(f"'{path}' could not be marked as finished: {error.strerror}")


def not_written(folder: Path, step: int, why: str) -> str:
    """What is told of a checkpoint that could not be written."""
    return (
        f"THE CHECKPOINT OF STEP {step} IS NOT WRITTEN to '{folder}': {why}. Training goes on; "
        "the checkpoints before it are as they were"
    )
