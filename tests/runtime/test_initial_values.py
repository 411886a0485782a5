"""The values that all workers begin with."""

import os
from collections.abc import Sequence

import numpy as np

from weft.runtime.initial_values import PIECE_BYTES, FirstValues, add_piece, pieces, read_values, write_values


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


class Models:
    """A replica whose values are these arrays, and what it was told to begin with."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = list(arrays)
        self.begun: list[list[list[float]]] = []

    def values(self) -> list[np.ndarray]:
        return self.arrays

    def begin_with(self, values: Sequence[np.ndarray]) -> None:
        self.begun.append([value.tolist() for value in values])


def give(values: FirstValues, models: Models) -> None:
    """What a worker does when its script joins."""
    values.offer(models.values())
    values.take(models)  # type: ignore[arg-type]


def test_all_begin_with_the_values_of_worker_zero_which_keeps_its_own() -> None:
    fd = os.memfd_create("test")
    models = [Models(np.full(2, float(rank)), np.full(3, rank + 0.5)) for rank in range(3)]
    for rank, each in enumerate(models):
        give(FirstValues(fd, is_first=rank == 0), each)
    assert [[array.tolist() for array in each.arrays] for each in models] == [[[0.0] * 2, [0.5] * 3]] * 3
    assert [each.begun for each in models] == [[], [[[0.0] * 2, [0.5] * 3]], [[[0.0] * 2, [0.5] * 3]]]
    os.close(fd)


def test_of_a_model_that_joins_later_only_what_is_new_is_given() -> None:
    fd = os.memfd_create("test")
    models = [Models(np.full(2, float(rank))) for rank in range(2)]
    values = [FirstValues(fd, is_first=rank == 0) for rank in range(2)]
    for rank in range(2):
        give(values[rank], models[rank])
        models[rank].arrays[0][:] = 7.0 + rank  # trained since
        models[rank].arrays.append(np.full(3, rank + 0.5))
    for rank in range(2):
        give(values[rank], models[rank])
    assert [array.tolist() for array in models[1].arrays] == [[8.0] * 2, [0.5] * 3]
    assert models[1].begun == [[[0.0] * 2], [[0.5] * 3]]
    late = [np.zeros(2), np.zeros(3)]
    read_values(fd, late)
    assert [value.tolist() for value in late] == [[0.0] * 2, [0.5] * 3], "what was written first is left alone"
    os.close(fd)
