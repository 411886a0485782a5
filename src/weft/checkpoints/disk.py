"""The file-system calls that write a checkpoint, one method each, so that a test can stop the machine before any."""

import os
import shutil
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

WRITE_BYTES_MAX = 16 << 20
"""Bytes of one call of write: a longer one could be cut short by the kernel."""


class Disk:
    """Calls of the operating system; each either happens or raises OSError."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def create(self, path: Path) -> int:
        """The descriptor of a new, empty file; one that a crashed attempt left there is emptied."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a folder with all that is in it; one that is gone already is no error."""
        shutil.rmtree(path, ignore_errors=True)

    def write_file(self, path: Path, pieces: Iterable[memoryview]) -> tuple[int, str]:
        """Write a file and wait until it is on the disk; its size, and its SHA-256 in hexadecimal digits."""
        digest, size = sha256(), 0
        descriptor = self.create(path)
        try:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                done = 0
                while done < len(piece):
                    done += self.write(descriptor, piece[done : done + WRITE_BYTES_MAX])
            self.sync(descriptor)
        finally:
            os.close(descriptor)
        return size, digest.hexdigest()
