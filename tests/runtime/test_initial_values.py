"""The values that all workers begin with."""

import os

import numpy as np

from weft.runtime.initial_values import PIECE_BYTES, add_piece, pieces, read_values, write_values


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


def test_another_hosts_file_is_written_piece_by_piece_and_read_as_the_first_one() -> None:
    fds = [os.memfd_create("test") for _ in range(2)]
    written = [np.arange(300_000.0), np.array([1, 2, 3])]
    write_values(fds[0], written)
    start, sizes = 0, []
    for piece in pieces(fds[0]):
        sizes.append(len(piece))
        start = add_piece(fds[1], start, piece)
    assert sizes == [PIECE_BYTES, PIECE_BYTES, 2_400_024 - 2 * PIECE_BYTES]
    read = [np.zeros_like(value) for value in written]
    read_values(fds[1], read)
    assert all(np.array_equal(a, b) for a, b in zip(read, written, strict=True))
    for fd in fds:
        os.close(fd)
