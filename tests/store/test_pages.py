"""Which pages of a private mapping were written to."""

import mmap
import os
from collections.abc import Iterator

import pytest

from weft.store.pages import WrittenPages

PAGE = mmap.PAGESIZE
NUM_PAGES = 4


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("pages")
    os.ftruncate(fd, NUM_PAGES * PAGE)
    yield fd
    os.close(fd)


def private(fd: int) -> mmap.mmap:
    return mmap.mmap(fd, NUM_PAGES * PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)


def written(pages: WrittenPages) -> list[bool]:
    return [pages.any(place * PAGE, (place + 1) * PAGE) for place in range(NUM_PAGES)]


def test_pages_that_were_only_read_are_not_written(file: int) -> None:
    memory = private(file)
    pages = WrittenPages(memory)
    assert pages.is_known
    assert written(pages) == [False] * 4
    assert sum(memory[place * PAGE] for place in range(NUM_PAGES)) == 0
    assert written(pages) == [False] * 4


def test_a_page_that_was_written_to_is_known_from_its_first_to_its_last_byte(file: int) -> None:
    memory = private(file)
    pages = WrittenPages(memory)
    memory[PAGE] = 1
    memory[4 * PAGE - 1] = 1
    assert written(pages) == [False, True, False, True]
    assert pages.any(0, PAGE) is False
    assert pages.any(0, PAGE + 1) is True
    assert pages.any(2 * PAGE - 1, 3 * PAGE) is True
    assert pages.any(2 * PAGE, 3 * PAGE) is False
    assert pages.any(0, 4 * PAGE) is True


def test_what_others_write_to_the_file_is_no_write_of_ones_own(file: int) -> None:
    memory = private(file)
    pages = WrittenPages(memory)
    shared = mmap.mmap(file, NUM_PAGES * PAGE)
    shared[:] = b"x" * (NUM_PAGES * PAGE)
    assert memory[2 * PAGE] == ord("x")
    assert written(pages) == [False] * 4


def test_without_the_kernels_word_nothing_is_known(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert not WrittenPages(private(file)).is_known


def test_nothing_stays_open_when_nobody_looks_any_more() -> None:
    before = len(os.listdir("/proc/self/fd"))
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    pages = WrittenPages(memory)
    assert pages.is_known
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del pages
    assert len(os.listdir("/proc/self/fd")) == before
