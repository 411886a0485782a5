"""The checkpoints of a run of several workers: when one is due, who adds what, and when it is complete (0043).

| phase   | entered when                                                  | then                               |
|---------|---------------------------------------------------------------|------------------------------------|
| none    |                                                               |                                    |
| resting | it is due by the clock, or a worker says so (`CheckpointDue`) | all are brought to rest (rest.py)  |
| copying | nothing is under way any more; or all scripts have ended      | each copies its part (`TakePart`)  |
| writing | all have copied (`PartCopied`): they go on                    | each writes it beside training     |
| none    | all parts are written (`PartWritten`)                         | the manifest, and the rename       |

A member that is lost, and a part that the disk does not take, end this: the checkpoints before are as they were.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec

from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import name_of, remove_partials
from weft.checkpoints.manifest import Manifest, WorkerPart, read_manifest
from weft.checkpoints.taking import CheckpointPlan, not_written, stopped_early
from weft.checkpoints.writing import abandon, complete, mark_finished
from weft.engines.real import timeouts
from weft.engines.real.rest import RunRest, Send
from weft.engines.real.views import Views
from weft.runtime.checkpoint_messages import CheckpointDue, PartCopied, PartLost, PartWritten, TakePart

ToCheckpoints = CheckpointDue | PartCopied | PartWritten | PartLost


class CheckpointPhase(Enum):
    """Where a checkpoint is; see above."""

    NONE = "none"
    RESTING = "resting"
    COPYING = "copying"
    WRITING = "writing"


class RunCheckpoints:
    """The checkpoints of a run whose members may change. `tell` tells the user."""

    def __init__(
        self,
        plan: CheckpointPlan,
        views: Views,
        rest: RunRest,
        send: Send,
        tell: Callable[[str], None],
        disk: Disk | None = None,
    ) -> None:
        self._plan = plan
        self._folder = Path(plan.folder)
        self._views, self._rest = views, rest
        self._send, self._tell = send, tell
        self._disk = disk or Disk()
        self._phase = CheckpointPhase.NONE
        self._due: dict[int, bool] = {}
        """The workers that have stopped because a checkpoint is due; whether all are in step."""
        self._due_s = 0.0
        """When the first of them has."""
        self._last_s: float | None = None
        """When the last one was begun, or all had begun to train."""
        self._steps_before = 0 if plan.resume is None else read_manifest(Path(plan.resume)).step
        self._step = 0
        self._number = 0
        """Of the checkpoints whose parts were asked for, the last."""
        self._members: list[int] = []
        """Those who add to the checkpoint that is being taken."""
        self._copied: set[int] = set()
        self._parts: dict[int, WorkerPart] = {}
        self._manifest: Manifest | None = None
        self._steps: dict[int, int] = {}
        """How many steps each member had made for the checkpoint that is being taken."""
        self._written: dict[int, int] | None = None if plan.resume is None else dict.fromkeys(views.members, 0)
        """The same for the newest complete checkpoint."""
        self._is_last = False
        self._is_finished = False
        """The scripts have ended, and were not told to."""

    @property
    def holds_workers(self) -> bool:
        """Whether workers have stopped for a checkpoint while the one before it is still being written."""
        return bool(self._due) and self._phase is not CheckpointPhase.NONE

    def turn(self, now_s: float, *, is_ending: bool) -> None:
        """Begin a checkpoint if one is due; `is_ending`: scripts end, and only the last one is still to come."""
        if not self._views.all_train:
            return
        last_s = self._last_s = now_s if self._last_s is None else self._last_s
        if is_ending:
            self.break_off()
            if self._due and not self._rest.is_on:
                self._due.clear()
                self._rest.end()
        elif self._phase is CheckpointPhase.NONE and not self._rest.is_on and self._views.is_settled:
            seconds = self._plan.every.seconds
            if self._is_due(now_s) or (seconds is not None and now_s - last_s >= seconds):
                self._due.clear()
                self._last_s, self._phase = now_s, CheckpointPhase.RESTING
                self._rest.begin(self, is_for_checkpoint=True)

    def _is_due(self, now_s: float) -> bool:
        """Whether those have stopped that will: all, where all are in step, or any."""
        has_all = self._due.keys() >= set(self._views.members) or not all(self._due.values())
        return bool(self._due) and (has_all or now_s - self._due_s > timeouts.CHECKPOINT_DUE_S)

    def hear(self, rank: int, message: ToCheckpoints) -> None:
        """Take a worker's message."""
        if isinstance(message, CheckpointDue):
            if self._phase is not CheckpointPhase.RESTING:  # else it stops for the one that is to come
                self._due_s = self._due_s if self._due else time.monotonic()
                self._due[rank] = message.is_in_step
        elif self._phase not in (CheckpointPhase.COPYING, CheckpointPhase.WRITING) or message.number != self._number:
            return
        elif isinstance(message, PartCopied):
            self._copied.add(rank)
            if self._copied == set(self._members) and not self._is_last:
                self._phase = CheckpointPhase.WRITING
                self._rest.end()
        elif isinstance(message, PartWritten):
            self._parts[rank] = message.part
            self._manifest = message.manifest or self._manifest
            if len(self._parts) == len(self._members):
                self._complete()
        else:
            self._fail(message.why)

    def lose(self) -> None:
        """A member is lost: what it had to add is lost with it."""
        if self._phase in (CheckpointPhase.COPYING, CheckpointPhase.WRITING):
            self._fail("a worker was lost meanwhile")
        self.break_off()

    def break_off(self) -> None:
        """A checkpoint whose parts are not asked for yet is not taken now."""
        if self._phase is CheckpointPhase.RESTING:
            self._phase = CheckpointPhase.NONE
            self._rest.end()

    def rest_refused(self, why: str) -> None:
        """A script has stopped where no checkpoint could be taken."""
        self._step = self._steps_before + max(self._rest.steps.values(), default=0)
        self._fail(why)

    def rest_still(self) -> None:
        """Nothing is under way: all copy their parts."""
        self._take(self._rest.steps)

    def rest_all_there(self) -> None:
        """Nothing to do: nobody comes in."""

    def end(self, steps: Mapping[int, int], *, was_stopped: bool) -> None:
        """All scripts have ended, each member's after so many steps: the last checkpoint, instead of one that is still
        being written."""
        if self._is_last:
            return
        self._is_last, self._is_finished = True, not was_stopped
        if self._phase is CheckpointPhase.WRITING:
            abandon(self._folder, self._step, self._disk)
        self._take(steps)

    def _take(self, steps: Mapping[int, int]) -> None:
        self._phase = CheckpointPhase.COPYING
        self._number += 1
        self._members = list(self._views.members)
        self._steps = {member: steps[member] for member in self._members}
        self._step = self._steps_before + max(self._steps.values())
        self._copied.clear()
        self._parts.clear()
        self._manifest = None
        for place, member in enumerate(self._members):
            self._send(member, TakePart(self._step, place, self._number))

    def _complete(self) -> None:
        assert self._manifest is not None
        parts = sorted(self._parts.values(), key=lambda part: part.rank)
        manifest = msgspec.structs.replace(self._manifest, is_finished=self._is_finished, workers=parts)
        try:
            if self._steps == self._written:  # since then, nobody has trained: the furthest alone does not tell
                abandon(self._folder, self._step, self._disk)
                if self._is_finished:
                    mark_finished(self._folder / name_of(self._step), self._disk)
            else:
                complete(self._folder, manifest, parts, self._disk)
        except OSError as error:
            self._fail(error.strerror or str(error))
            return
        with suppress(OSError):  # of one that was dropped, parts may have been written since
            remove_partials(self._folder, self._disk)
        self._phase, self._written = CheckpointPhase.NONE, self._steps
        if self._is_last:
            self._tell_if_early(manifest)

    def _tell_if_early(self, manifest: Manifest) -> None:
        """Tell who has stopped the run, by a signal or by --steps, how it goes on."""
        is_cut = manifest.num_epochs is not None and min(part.epoch for part in manifest.workers) < manifest.num_epochs
        by_steps = self._is_finished and is_cut and self._plan.facts.steps_max is not None
        if by_steps or not self._is_finished:
            self._tell(stopped_early(self._folder, manifest.place, by_steps=by_steps))

    def _fail(self, why: str) -> None:
        """This checkpoint is not written, which is told."""
        was_at_rest, self._phase = self._rest.is_for(self), CheckpointPhase.NONE
        abandon(self._folder, self._step, self._disk)
        self._tell(not_written(self._folder, self._step, why, is_last=self._is_last))
        if was_at_rest:
            self._rest.end()
