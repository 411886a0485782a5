"""The checkpoints of a single worker: when one is due, and the one from which the run goes on."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import name_of
from weft.checkpoints.forms import Form
from weft.checkpoints.interval import EVERY, CheckpointInterval
from weft.checkpoints.manifest import FORMAT, Manifest, RunFacts, read_manifest, versions
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


class Checkpoints:
    """The checkpoints of a run that has one worker."""

    def __init__(
        self,
        plan: CheckpointPlan,
        tell: Callable[[str], None],
        disk: Disk | None = None,
    ) -> None:
        self.plan = plan
        self.tell = tell
        self._folder = Path(plan.folder)
        self._disk = disk or Disk()
        self.last_step: int | None = None
        """The step of the last checkpoint that was taken, or from which the run goes on."""
        self._last_s = time.monotonic()
        self.on_end: Callable[[bool], None] = lambda was_stopped: None
        """Called when the script has ended in order; with True if it was told to leave early."""

    def stored(self) -> tuple[Manifest, list[Mapping[str, TensorBytes]]] | None:
        """The checkpoint to go on from: its manifest, and the tensors of each of its parts."""
        if self.plan.resume is None:
            return None
        path = Path(self.plan.resume)
        manifest = read_manifest(path)
        files = [part.file for part in manifest.workers]
        self.last_step = manifest.step
        return manifest, [read_tensors(path / file.name, file.size, file.tensors) for file in files]

    def is_due(self, step: int, num_epochs: int | None) -> bool:
        """Whether to take one now; `num_epochs` is how many epochs have ended, None within one."""
        every, last = self.plan.every, self.last_step or 0
        if step <= last:
            return False
        if every.steps is not None:
            return step - step % every.steps > last
        if every.epochs is not None:
            return num_epochs is not None and num_epochs % every.epochs == 0
        return time.monotonic() - self._last_s >= (every.seconds or 0.0)

    def take(
        self,
        step: int,
        position: Position,
        state: Form,
        tensors: Mapping[str, TensorBytes],
        num_epochs: int | None,
        layout: list[str],
    ) -> None:
        """Write a checkpoint. If the disk does not take it, that is told."""
        self.last_step, self._last_s = step, time.monotonic()
        manifest = Manifest(FORMAT, step, num_epochs, self.plan.facts, versions(), layout, [])
        try:
            part = write_part(self._folder, step, 0, position, state, tensors, self._disk)
            complete(self._folder, manifest, [part], self._disk)
        except OSError as error:
            abandon(self._folder, step, self._disk)
            self.tell(not_written(self._folder, step, error.strerror or str(error)))

    def refuse(self, step: int, error: CheckpointError) -> None:
        """A model that is not fit to be kept: this step has no checkpoint, which is told."""
        self.last_step, self._last_s = step, time.monotonic()
        self.tell(not_written(self._folder, step, str(error).partition("\n")[0]))

    def tell_stopped(self) -> None:
        """The run was told to stop, and its last checkpoint is complete."""
        self.tell(stopped_early(self._folder, f"step {self.last_step}"))

    def finish(self) -> None:
        """The script has ended in order, and its last checkpoint says so from now on."""
        if self.last_step is None:
            return
        path = self._folder / name_of(self.last_step)
        if path.is_dir():
            try:
                mark_finished(path, self._disk)
            except OSError as error:
                self.tell(f"'{path}' could not be marked as finished: {error.strerror}")


def not_written(folder: Path, step: int, why: str, *, is_last: bool = False) -> str:
    """What is told of a checkpoint that could not be written."""
    goes_on = "" if is_last else "Training goes on; "
    return (
        f"THE CHECKPOINT OF STEP {step} IS NOT WRITTEN to '{folder}': {why}. {goes_on}"
        "the checkpoints before it are as they were"
    )


def stopped_early(folder: Path, place: str, *, by_steps: bool = False) -> str:
    """What is told at the end of a run that was stopped before its end, when its last checkpoint is complete."""
    how = "the same command without --steps, or with more of them," if by_steps else "the same command"
    return f"stopped at {place}; the checkpoint is in '{folder}', and {how} goes on"
