"""Takes checkpoints of a script at safe points, and lets a script that is started again go on from one.

A safe point is where the script's iteration, scheduler and all, is over and the next has not begun:

| where                                 | is one                                                            |
|---------------------------------------|-------------------------------------------------------------------|
| the next batch of a share is wanted   | after a step, in the epoch's first share, while there is no other |
| the next epoch is wanted              | always                                                            |
| the script has ended                  | if it ended in order                                              |

A script that goes on runs from its beginning; all is restored when `worker.epochs` begins, because schedulers and
other objects are made between `weft.join` and the loop. The share's reading is repeated up to the batch where it was,
with the random numbers that it began with, and the last of these batches must be the same as it was.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weft.adapters.first_item import digest_of_item
from weft.adapters.kept_parts import (
    Framework,
    check_fits,
    load_kept,
    other_arguments,
    packed,
    restoring,
    unpacked,
    with_servers,
)
from weft.checkpoints.taking import Checkpoints
from weft.checkpoints.writing import Position
from weft.core.errors import CheckpointError, ConfigError, IllegalCall
from weft.core.script_state import BEFORE_TRAINING

if TYPE_CHECKING:
    from weft.adapters.worker import Worker

NUM_ELEMENTS_MAX = 1024
"""Elements of each array of a batch that go into its digest."""


class Keeping:
    """The checkpoints of one script."""

    def __init__(self, worker: "Worker", checkpoints: Checkpoints, framework: Framework) -> None:
        self._worker = worker
        self._checkpoints = checkpoints
        self._framework = framework
        self._kept: dict[str, Any] = {}
        self._num_epochs: int | None = None
        self._stored: Mapping[str, Any] | None = None
        """The state that is restored when the script comes to the place where it was."""
        self._num_skipped = 0
        """Batches of the first share that the script has had already."""
        self._data: Any = None
        self._shared: list[Any] = []
        """The data of each share of an epoch, as far as shares have begun."""
        self._generators: list[list[Any]] = []
        """States, from the checkpoint, of the generators of each of these."""
        self._set_already: set[int] = set()
        self._num_shares = 0
        self._num_read = 0
        self._began: Any = None
        self._last: Any = None
        self._digest: str | None = None
        self._was_cut = False
        """A share of this epoch ended before its data did."""
        checkpoints.on_end = self._end

    def keep(self, objects: Mapping[str, Any]) -> None:
        """Keep these objects, too."""
        if self._num_epochs is not None:
            raise ConfigError("worker.keep was called after worker.epochs.\n  Call it before the training loop.")
        self._kept.update(objects)
        packed({"kept": {name: each.state_dict() for name, each in objects.items()}}, self._framework)

    def begin(self, num_epochs: int) -> int:
        """`worker.epochs` begins: restore everything; the epoch to begin with."""
        if self._num_epochs is not None:
            raise ConfigError(
                "worker.epochs was called twice, so a checkpoint would not know in which of the two loops the script "
                "was.\n  Use one loop over all epochs, or leave out the checkpoints."
            )
        self._num_epochs = num_epochs
        stored = self._checkpoints.stored()
        if stored is None:
            return 0
        manifest, tensors = stored
        part = manifest.workers[0]
        check_fits(manifest, self._framework)
        worker, seat = self._worker, self._worker._seat
        if not seat.is_plain and seat.script.at not in BEFORE_TRAINING:
            raise IllegalCall(
                "the script reported or saved before worker.epochs, so that its checkpoint cannot be restored.\n"
                "  Report and save in the loop over worker.epochs, or after it."
            )
        first = unpacked(part, tensors[0], self._framework)
        of_servers = []
        for each, theirs in zip(manifest.workers, tensors, strict=True):
            of_servers += unpacked(each, theirs, self._framework).get("of_servers", ())
        with restoring():
            self._framework.load(first["model"], with_servers(first["optimizers"], of_servers))
            load_kept(self._kept, first["kept"])
            if manifest.is_alone:  # several have read their data otherwise, and are between two epochs
                self._stored, self._num_skipped, self._generators = first, part.num_batches, first["generators"]
        worker.go_on_from(manifest.step, part.num_samples)
        before = "" if manifest.is_alone else f", with 1 worker instead of {len(manifest.workers)}"
        before += other_arguments(manifest.facts, self._checkpoints.plan.facts)
        self._checkpoints.tell(f"goes on from the checkpoint of {manifest.place}{before}")
        return part.epoch

    def begin_epoch(self) -> None:
        self._num_shares, self._was_cut = 0, False
        self._num_read = 0
        if self._stored is not None and not self._num_skipped:
            self._framework.set_random(self._stored["random"], None)
            self._stored = None

    def end_epoch(self, epoch: int) -> None:
        """The script wants the next epoch."""
        if self._stored is not None:
            raise CheckpointError(
                "the script was within an epoch, but now reads no share of data in it.\n  Use the script as it was."
            )
        if self._was_cut:
            self._leave_if_told()
            return
        self._num_shares = 0
        self._safe_point(Position(epoch + 1, 0, self._worker._last_samples), epoch + 1)

    def begin_share(self, data: Any) -> None:
        """A share begins; what reads it is made after this."""
        if self._num_epochs is None:
            raise ConfigError(
                "a checkpoint knows in which epoch a script is only if its epochs come from worker.epochs.\n"
                "  Write for epoch in worker.epochs(10), or leave out the checkpoints."
            )
        if isinstance(data, Iterator):
            raise ConfigError(
                f"share() was given a {type(data).__name__}, which cannot be read again from its beginning.\n"
                "  Give it a DataLoader or a list, or leave out the checkpoints."
            )
        number, self._num_shares = self._num_shares, self._num_shares + 1
        self._shared[number : number + 1] = [data]
        if number < len(self._generators):
            self._framework.set_generators(self._generators[number], data, self._set_already)
        if number:
            return
        self._data, self._num_read = data, 0
        if self._stored is not None:
            self._framework.set_random(self._stored["share"]["began"], data)
        self._began = self._framework.random(data)

    def read(self, items: Any, batch_of: Callable[[Any], Any]) -> Iterator[Any]:
        """The items of the share that has just begun; each safe point is passed before the next is read."""
        each, is_first = iter(items), self._num_shares == 1
        if is_first and self._stored is not None:
            self._repeat(each, batch_of)
        steps = self._worker.steps
        while True:
            has_stepped, steps = self._worker.steps > steps, self._worker.steps
            if is_first and self._num_shares == 1 and has_stepped:
                epoch = self._worker._epoch
                self._safe_point(Position(epoch, self._num_read, self._worker._last_samples), None)
            if self._worker._is_over:
                self._was_cut = True
                self._leave_if_told()
                return
            if is_first:
                self._last = self._framework.random(self._data)
            try:
                item = next(each)
            except StopIteration:
                return
            if is_first:
                self._num_read += 1
                self._digest = digest_of_item(batch_of(item), NUM_ELEMENTS_MAX)
            yield item

    def _repeat(self, each: Iterator[Any], batch_of: Callable[[Any], Any]) -> None:
        """Read the batches that the script has had, and set the random numbers to what they were afterwards."""
        assert self._stored is not None
        share = self._stored["share"]
        for number in range(self._num_skipped):
            if number == self._num_skipped - 1:
                self._framework.set_random(share["last"], self._data)
            item = next(each, None)
            self._num_read += 1
        digest = None if item is None else digest_of_item(batch_of(item), NUM_ELEMENTS_MAX)
        if item is None or digest != share["digest"]:
            raise CheckpointError(
                f"batch {self._num_read} of this epoch is not what it was when the checkpoint was made.\n"
                "  Use the same data, in batches of the same size, and seed what shuffles it."
            )
        self._last, self._digest = share["last"], digest
        self._framework.set_random(self._stored["random"], self._data)
        self._stored, self._num_skipped = None, 0

    def _safe_point(self, position: Position, num_epochs: int | None) -> None:
        step, last = self._worker.steps, self._checkpoints.last_step or 0
        is_last = self._worker._is_over or position.epoch == self._num_epochs
        if self._checkpoints.is_due(step, num_epochs) or (is_last and step > last):
            self._take(position)
        self._leave_if_told()

    def _leave_if_told(self) -> None:
        """Raise SystemExit in the script if the run was told to stop: it goes on from its last checkpoint later."""
        if getattr(self._worker._seat, "leaves", False) and self._worker._is_over:
            if self._checkpoints.last_step != self._worker.steps:
                self._checkpoints.tell(
                    f"step {self._worker.steps} is no place for a checkpoint; the last one is of step "
                    f"{self._checkpoints.last_step or 0}"
                )
            else:
                self._checkpoints.tell_stopped()
            raise SystemExit(0)

    def _take(self, position: Position) -> None:
        worker, framework = self._worker, self._framework
        try:
            framework.check_finite()
        except CheckpointError as error:
            self._checkpoints.refuse(worker.steps, error)
            return
        if why := framework.unnamed(self._kept.values()) or worker.rates.unnamed():
            self._checkpoints.refuse(worker.steps, CheckpointError(why))
            return
        share = {"began": self._began, "last": self._last, "digest": self._digest} if position.num_batches else None
        state = {
            "random": framework.random(self._data if position.num_batches else None),
            "share": share,
            "generators": [framework.generators(data) for data in self._shared],
            "kept": {name: each.state_dict() for name, each in self._kept.items()},
            "model": framework.model(),
            "optimizers": framework.optimizers(),
        }
        form, tensors = packed(state, framework)
        self._checkpoints.take(worker.steps, position, form, tensors, self._num_epochs, list(framework.layout()))

    def _end(self, was_stopped: bool) -> None:
        """The script has ended in order."""
        if was_stopped or self._num_epochs is None or self._stored is not None:
            return
        if self._worker.steps > (self._checkpoints.last_step or 0) and not self._was_cut:
            # the last epoch, or the one in which the script has left its loop
            self._take(Position(self._worker.epoch + 1, 0, self._worker._last_samples))
        if self._checkpoints.last_step == self._worker.steps:
            self._checkpoints.finish()
