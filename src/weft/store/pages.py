"""Which pages of a private mapping were written to, by /proc/self/pagemap: whichever code wrote, Python or native."""

import ctypes
import mmap
import os
from weakref import finalize

ENTRY_BYTES = 8
PRESENT, SWAPPED, SHARED_PAGE = 0x80, 0x40, 0x20
"""Bits 63 (present), 62 (swapped) and 61 (file page or shared) of an entry, which are in its last byte."""
UNWRITTEN = bytes(kind for kind in range(256) if not kind & (PRESENT | SWAPPED) or kind & SHARED_PAGE)
"""The last bytes of entries of pages that were not written to."""


class WrittenPages:
    """The written pages of a private mapping: copy-on-write has replaced them by anonymous pages, without bit 61."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        try:
            self._pagemap: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            finalize(self, os.close, self._pagemap)
        except OSError:
            self._pagemap = None

    @property
    def is_known(self) -> bool:
        return self._pagemap is not None

    def any(self, start: int, stop: int) -> bool:
        """Whether a page between these offsets was written to."""
        assert self._pagemap is not None
        first = (self._address + start) // mmap.PAGESIZE
        last = (self._address + stop - 1) // mmap.PAGESIZE
        raw = os.pread(self._pagemap, (last - first + 1) * ENTRY_BYTES, first * ENTRY_BYTES)
        return bool(raw[ENTRY_BYTES - 1 :: ENTRY_BYTES].translate(None, UNWRITTEN))
