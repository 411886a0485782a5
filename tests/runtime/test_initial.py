"""The values that all workers begin with."""

import os

import numpy as np

from weft.runtime.initial import read_values, write_values


def test_arrays_of_any_shape_and_type_are_read_as_they_were_written() -> None:
    fd = os.memfd_create("test")
    written = [np.arange(6.0).reshape(2, 3), np.array(7), np.array([True, False]), np.zeros((0, 4), np.float32)]
    write_values(fd, written)
    read = [np.zeros_like(value) for value in written]
    read_values(fd, read)
    assert all(np.array_equal(a, b) for a, b in zip(read, written, strict=True))
    os.close(fd)


def test_strided_arrays_are_filled_in_place() -> None:
    fd = os.memfd_create("test")
    write_values(fd, [np.arange(4.0).reshape(2, 2)])
    target = np.zeros((2, 2)).T
    read_values(fd, [target])
    assert np.array_equal(target, [[0.0, 1.0], [2.0, 3.0]])
    os.close(fd)
