"""Writes a checkpoint: every worker its own file under a temporary name, then one process the manifest and the rename.

| order | call                                       | a crash before it leaves                                   |
|-------|--------------------------------------------|------------------------------------------------------------|
| 1     | make the temporary folder                  | nothing new                                                |
| 2     | write and fsync each worker's file         | a temporary folder, which the next run removes             |
| 3     | write and fsync the manifest               | the same                                                   |
| 4     | fsync the temporary folder                 | the same                                                   |
| 5     | rename it, and one of the same step aside  | the same; one that is aside is put back by the next run    |
| 6     | fsync the folder of all checkpoints        | the temporary one or the new one, either whole             |
| 7     | remove those that are too old              | some more than are needed                                  |
"""

from collections.abc import Mapping, Sequence
from errno import EFBIG
from pathlib import Path

import msgspec

from weft.checkpoints.disk import Disk
from weft.checkpoints.folder import aside_of, name_of, partial_of, prune
from weft.checkpoints.forms import Form
from weft.checkpoints.manifest import (
    MANIFEST,
    MANIFEST_BYTES_MAX,
    FileEntry,
    Manifest,
    WorkerPart,
    encode,
    file_name,
    read_manifest,
)
from weft.checkpoints.tensor_file import TensorBytes, file_pieces, layout_of
from weft.data.share_records import HandedShares, Reached


class Position(msgspec.Struct, frozen=True):
    """Where a worker's script is."""

    epoch: int
    num_batches: int
    num_samples: float
    shares: HandedShares | None = None
    reached: Reached | None = None


def write_part(
    folder: Path,
    step: int,
    rank: int,
    position: Position,
    state: Form,
    tensors: Mapping[str, TensorBytes],
    disk: Disk,
) -> WorkerPart:
    """Write a worker's file of the checkpoint of `step`, under its temporary name; raises OSError."""
    partial = folder / partial_of(step)
    disk.make_folder(partial)
    name = file_name(rank)
    size, digest = disk.write_file(partial / name, file_pieces(tensors))
    entry = FileEntry(name, size, digest, layout_of(tensors))
    return WorkerPart(
        rank,
        position.epoch,
        position.num_batches,
        position.num_samples,
        entry,
        state,
        position.shares,
        position.reached,
    )


def complete(folder: Path, manifest: Manifest, parts: Sequence[WorkerPart], disk: Disk) -> Path:
    """Write the manifest, and give the checkpoint its name; the path. Raises OSError if that fails, and then those of
    before are there, or if it is not known to be on the disk."""
    manifest = msgspec.structs.replace(manifest, workers=sorted(parts, key=lambda part: part.rank))
    partial, path = folder / partial_of(manifest.step), folder / name_of(manifest.step)
    text = encode(manifest)
    if len(text) > MANIFEST_BYTES_MAX:  # it would not be read again, and those that can be would be removed
        raise OSError(EFBIG, f"its manifest would have {len(text)} bytes, of at most {MANIFEST_BYTES_MAX}")
    disk.write_file(partial / MANIFEST, [memoryview(text)])
    disk.sync_folder(partial)
    aside = folder / aside_of(manifest.step)
    disk.remove(aside)
    stands = path.exists()  # one that was passed over as damaged, or in which others were less far
    if stands:
        disk.rename(path, aside)
    try:
        disk.rename(partial, path)
    except OSError:
        if stands:
            disk.rename(aside, path)
        raise
    disk.sync_folder(folder)
    disk.remove(aside)
    prune(folder, manifest.step, disk)
    return path


def abandon(folder: Path, step: int, disk: Disk) -> None:
    """Remove what was written so far of a checkpoint that cannot be completed."""
    disk.remove(folder / partial_of(step))


def mark_finished(path: Path, disk: Disk) -> None:
    """Let a complete checkpoint say that its run has finished; it is complete at every moment."""
    manifest = msgspec.structs.replace(read_manifest(path), is_finished=True)
    beside = path / f".{MANIFEST}.part"
    disk.write_file(beside, [memoryview(encode(manifest))])
    disk.rename(beside, path / MANIFEST)
    disk.sync_folder(path)
