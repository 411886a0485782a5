"""The messages between a worker process and its engine about checkpoints of several workers (0043)."""

from msgspec import Struct

from weft.checkpoints.manifest import Manifest, WorkerPart


class CheckpointDue(Struct, frozen=True, tag=True):
    """To the engine: this worker's script has made so many steps, or epochs, that a checkpoint is due. It has stopped,
    and waits for `RestAsked` or `GoOn`."""

    is_in_step: bool
    """All make the same steps, so that all will say so here."""


class TakePart(Struct, frozen=True, tag=True):
    """To a member, when all rest or all scripts have ended: copy your part of a checkpoint, and write it."""

    step: int
    """The steps by which the checkpoint is named."""
    place: int
    """The member's place among those that are left; the first adds the model."""
    number: int
    """Of the checkpoints that this run has begun: two may be of the same step, if the first was given up."""


class PartCopied(Struct, frozen=True, tag=True):
    """To the engine: this worker's part is copied, or lost; its script may go on."""

    number: int


class PartWritten(Struct, frozen=True, tag=True):
    """To the engine: this worker's part is on the disk."""

    number: int
    part: WorkerPart
    manifest: Manifest | None
    """From the first of the members: the manifest without parts."""


class PartLost(Struct, frozen=True, tag=True):
    """To the engine: this worker's part cannot be written."""

    number: int
    why: str
