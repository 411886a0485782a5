"""Which pages of a private mapping were written to: the kernel knows, whoever wrote and however."""

import ctypes
import mmap
import os

import numpy as np

ENTRY_BYTES = 8
SHARED_PAGE = np.uint64(1 << 61)
PRESENT = np.uint64(1 << 63)
SWAPPED = np.uint64(1 << 62)


class WrittenPages:
    """Looks up a private file mapping in /proc/self/pagemap: a page that was written to is no longer the file's."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        try:
            self._pagemap: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._pagemap = None

    @property
    def is_known(self) -> bool:
        return self._pagemap is not None

    def any(self, start: int, stop: int) -> bool:
        """True when a page between these offsets was written to."""
        assert self._pagemap is not None
        first = (self._address + start) // mmap.PAGESIZE
        last = (self._address + stop - 1) // mmap.PAGESIZE
        raw = os.pread(self._pagemap, (last - first + 1) * ENTRY_BYTES, first * ENTRY_BYTES)
        entries = np.frombuffer(raw, np.uint64)
        is_there = (entries & (PRESENT | SWAPPED)) != 0
        return bool((is_there & ((entries & SHARED_PAGE) == 0)).any())
