"""Model files: only regular files are written, whole or not at all, with the permissions that the umask gives."""

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from weft.core.errors import CheckpointError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads to itself",
}
DISK_TROUBLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ESTALE, errno.ETIMEDOUT})
"""What a disk may have against a file that is no fault of the script's."""
NAME_CHARACTERS = 32
"""Of a file's name in its temporary one, which must not be too long when the name itself is just short enough."""
OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""How safetensors, which is written in Rust, tells what the system said."""


def regular_file(path: str | Path) -> Path:
    """The file that a path names, or will: links are followed. Refuses what is there and is no regular file."""
    goal = Path(os.path.realpath(path))
    try:
        kind = stat.S_IFMT(os.lstat(goal).st_mode)
    except FileNotFoundError:
        kind = stat.S_IFREG
    except OSError as error:
        raise _refused(path, str(error.strerror)) from error
    if kind != stat.S_IFREG:
        raise _refused(path, f"it is {KINDS[kind]}, not a regular file")
    return goal


class PartialFile:
    """An empty file beside the one that it will replace: under a temporary name in the same folder.

    `owner` tells those apart that write to one place. Whoever has one either puts it in place or drops it.
    """

    def __init__(self, path: str | Path, owner: str) -> None:
        self.goal = regular_file(path)
        self.path = self.goal.with_name(f".{self.goal.name[:NAME_CHARACTERS]}.{owner}.part")
        self.path.unlink(missing_ok=True)  # of a process that was killed
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._mode = stat.S_IMODE(os.fstat(descriptor).st_mode)  # the umask has been applied to it
        os.close(descriptor)

    def put_in_place(self) -> None:
        """Replace the file in one step, once this one is on the disk. A file that was there keeps its permissions."""
        mode = stat.S_IMODE(self.goal.stat().st_mode) if self.goal.exists() else self._mode
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(self.path, self.goal)

    def drop(self) -> None:
        """Leave everything as it was."""
        self.path.unlink(missing_ok=True)


def write_model(path: str, write: Callable[[str], None]) -> None:
    """Let `write` fill a file, which then stands at `path`.

    Raises OSError if the disk cannot take it (the file that was there is as it was), CheckpointError for a path that
    cannot be written to.
    """
    from safetensors import SafetensorError

    try:
        part = PartialFile(path, str(os.getpid()))
        try:
            write(str(part.path))
            part.put_in_place()
        except BaseException:
            part.drop()
            raise
    except SafetensorError as error:
        told = OS_ERROR.search(str(error))
        if told is None:
            raise
        raise _told(path, OSError(int(told[1]), os.strerror(int(told[1])))) from error
    except OSError as error:
        raise _told(path, error) from error


def not_saved(path: str, error: OSError) -> str:
    """What to say of a file that the disk could not take."""
    why = error.strerror or str(error)
    return f"'{path}' is NOT saved: {why}. Training goes on; a file that was there before is as it was."


def _told(path: str, error: OSError) -> OSError | CheckpointError:
    """The error if it is the disk's, and else a refusal."""
    return error if error.errno in DISK_TROUBLE else _refused(path, error.strerror or str(error))


def _refused(path: str | Path, why: str) -> CheckpointError:
    return CheckpointError(f"'{path}' cannot be saved: {why}.\n  Give the name of a file that can be written.")
