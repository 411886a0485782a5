"""The folder of a run's checkpoints: which are there, which is the newest complete one, and which may go."""

import errno
import fcntl
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from weft.checkpoints.disk import Disk
from weft.checkpoints.manifest import Manifest, read_manifest
from weft.checkpoints.tensor_file import read_tensors, refused
from weft.core.errors import CheckpointError, ConfigError

COMPLETE = re.compile(r"step-([0-9]{9,})")
PARTIAL = re.compile(r"\.step-([0-9]{9,})\.part")
ASIDE = re.compile(r"\.step-([0-9]{9,})\.old")
LOCK = ".lock"
NUM_KEPT = 3
READ_BYTES = 4 << 20


class Found(NamedTuple):
    """The newest complete checkpoint of a folder, if there is one, and why newer ones were passed over."""

    path: Path | None
    manifest: Manifest | None
    passed_over: list[str]


def name_of(step: int) -> str:
    return f"step-{step:09d}"


def partial_of(step: int) -> str:
    """The temporary name of a checkpoint that is being written."""
    return f".{name_of(step)}.part"


def aside_of(step: int) -> str:
    """The name of a checkpoint while another of the same step takes its place."""
    return f".{name_of(step)}.old"


def put_back(folder: Path, disk: Disk | None = None) -> None:
    """Undo what a crash left half done when a checkpoint was to take the place of another of the same step."""
    for name in sorted(os.listdir(folder)):
        if match := ASIDE.fullmatch(name):
            path = folder / name_of(int(match[1]))
            if path.exists():
                (disk or Disk()).remove(folder / name)
            else:
                (disk or Disk()).rename(folder / name, path)


def steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints of a folder, complete or not, the newest first."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted((int(match[1]) for name in names if (match := COMPLETE.fullmatch(name))), reverse=True)


def partials_in(folder: Path) -> list[Path]:
    """Checkpoints that were being written when their run ended."""
    names = os.listdir(folder) if folder.is_dir() else []
    return [folder / name for name in sorted(names, reverse=True) if PARTIAL.fullmatch(name)]


def check(path: Path, *, with_digests: bool = True) -> Manifest:
    """The manifest of a checkpoint whose files are all there and as it says; raises CheckpointError if they are not."""
    manifest = read_manifest(path)
    if name_of(manifest.step) != path.name:
        raise refused(path, f"its manifest is of step {manifest.step}")
    for part in manifest.workers:
        file = path / part.file.name
        read_tensors(file, part.file.size, part.file.tensors)
        if with_digests and _digest(file) != part.file.sha256:
            raise refused(file, "its digest is another: it has been changed or damaged")
    return manifest


def _digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def find_newest(folder: Path) -> Found:
    """The newest complete checkpoint. Raises CheckpointError if there are some, but none is complete."""
    passed = []
    for step in steps_in(folder):
        path = folder / name_of(step)
        try:
            manifest = check(path)
        except CheckpointError as error:
            passed.append(f"'{path}' is passed over: {str(error).partition(chr(10))[0]}")
            continue
        newer = [part for part in partials_in(folder) if part.name > partial_of(step)]
        passed += [_unwritten(part) for part in newer]
        return Found(path, manifest, passed)
    if passed:
        raise CheckpointError(
            f"no checkpoint in '{folder}' is complete.\n  "
            + "\n  ".join(passed)
            + "\n  Remove the folder to begin anew, or give another one."
        )
    return Found(None, None, [_unwritten(part) for part in partials_in(folder)])


def _unwritten(partial: Path) -> str:
    return f"'{partial}' is passed over: it was not written to its end"


def prune(folder: Path, step: int, disk: Disk) -> None:
    """Keep the checkpoint of this step and the NUM_KEPT - 1 before it."""
    for old in [each for each in steps_in(folder) if each <= step][NUM_KEPT:]:
        disk.remove(folder / name_of(old))


def prepare(folder: Path) -> None:
    """Make the folder; raises ConfigError if it cannot be made or nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"no checkpoint can be written into '{folder}': {error.strerror}.\n  Choose another folder."
        ) from error


def lock(folder: Path) -> int:
    """Lock the folder for this process until it ends, and remove what crashed runs left; the lock's descriptor.

    By lockf: the kernel releases it when the process dies, and forked processes do not have it.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise ConfigError(
            f"another run writes its checkpoints into '{folder}'.\n  Wait for its end, or give another folder."
        ) from error
    return descriptor


def remove_partials(folder: Path, disk: Disk | None = None) -> None:
    """Remove what a crashed run left half written."""
    for path in partials_in(folder):
        (disk or Disk()).remove(path)
