"""Disks that fail: the machine stops before any call, or the disk is full from some call on."""

import errno
import os
from pathlib import Path

from weft.checkpoints.disk import Disk

LOSSES = ("nothing", "half of what was not synced", "all that was not synced", "renames that were not synced")
"""What is gone after the machine has stopped."""


class Crash(BaseException):
    """The machine has stopped: no code runs after it."""


class QuickDisk(Disk):
    """Never waits until something is really there: no test's machine stops, and real disks take their time."""

    def sync(self, descriptor: int) -> None:
        """Nothing to do."""


class CrashingDisk(QuickDisk):
    """Stops the machine before call number `at`; `lose` then takes from the disk what was not synced."""

    def __init__(self, at: int | None = None) -> None:
        self.num_calls = 0
        self._at = at
        self._unsynced: dict[Path, int] = {}
        """Files, and how many of their bytes are surely on the disk."""
        self._paths: dict[int, Path] = {}
        self._renamed: list[tuple[Path, Path]] = []

    def _call(self) -> None:
        if self.num_calls == self._at:
            raise Crash
        self.num_calls += 1

    def make_folder(self, path: Path) -> None:
        self._call()
        super().make_folder(path)

    def create(self, path: Path) -> int:
        self._call()
        descriptor = super().create(path)
        self._paths[descriptor], self._unsynced[path] = path, 0
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        self._call()
        return super().write(descriptor, data[: max(1, len(data) // 2)])

    def sync(self, descriptor: int) -> None:
        self._call()
        super().sync(descriptor)
        self._unsynced.pop(self._paths.get(descriptor, Path()), None)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)
        self._renamed.append((source, target))
        moved = {path: target / path.relative_to(source) for path in self._unsynced if path.is_relative_to(source)}
        self._unsynced = {moved.get(path, path): size for path, size in self._unsynced.items()}

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self._renamed = [pair for pair in self._renamed if pair[1].parent != path]

    def remove(self, path: Path) -> None:
        self._call()
        super().remove(path)

    def lose(self, what: str) -> None:
        """Take from the disk what was not synced when the machine stopped."""
        if what == "renames that were not synced":
            for source, target in reversed(self._renamed):
                if target.is_dir():
                    os.rename(target, source)
        elif what != "nothing":
            for path in self._unsynced:
                if path.exists():
                    os.truncate(path, path.stat().st_size // 2 if what.startswith("half") else 0)


class FullDisk(QuickDisk):
    """Has room for so many more calls of write, and then for none."""

    def __init__(self, num_writes: int) -> None:
        self.num_writes = num_writes

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.num_writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.num_writes -= 1
        return super().write(descriptor, data)
