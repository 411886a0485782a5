"""Counts and offsets."""

import numpy as np

from weft.codecs.kernels import sparse


def test_places_are_written_and_read() -> None:
    places = np.array([0, 3, 65535, 65536, 200_000])
    counts, offsets, back = np.ones(4, np.uint32), np.zeros(5, np.uint16), np.zeros(5, np.int64)
    sparse.write(places, counts, offsets)
    assert counts.tolist() == [3, 1, 0, 1]
    assert sparse.are_right(counts, offsets, 200_001)
    assert not sparse.are_right(counts, offsets, 200_000)
    sparse.places(counts, offsets, back)
    assert back.tolist() == places.tolist()


def test_the_same_place_twice_is_not_right() -> None:
    assert not sparse.are_right(np.array([2], np.uint32), np.array([5, 5], np.uint16), 10)
    assert sparse.are_right(np.array([1, 1], np.uint32), np.array([5, 5], np.uint16), 70_000)


def test_numbers_are_added_where_they_belong() -> None:
    into = np.ones(65540, np.float32)
    sparse.add(np.array([1, 1], np.uint32), np.array([2, 3], np.uint16), np.array([4, 8], np.float32), into, 0.5)
    assert into[[2, 65539]].tolist() == [3, 5]
    assert into.sum() == 65540 + 6
