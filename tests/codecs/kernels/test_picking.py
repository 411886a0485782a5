"""Candidates, and the largest of them."""

import numpy as np

from weft.codecs.kernels import picking


def test_candidates_are_noted_while_there_is_room_and_counted_beyond_it() -> None:
    values, nothing = np.arange(20, dtype=np.float32), np.empty(0, np.float32)
    block, moved = np.empty((2, 16), np.float32)
    places, sizes, least = np.full(3, -1), np.zeros(3, np.int32), np.float32(15).view(np.int32)
    scratch = (block, moved, np.empty(16, np.int32), places, sizes)
    number, bad = picking.scan(values, nothing, nothing, 0.0, 1.0, least, *scratch)
    assert (number, bad.tolist(), places.tolist()) == (5, [], [15, 16, 17])
    assert sizes.view(np.float32).tolist() == [15, 16, 17]


def test_where_it_is_not_finite_is_said_however_many() -> None:
    values, residual, nothing = np.ones(1000), np.ones(1000), np.empty(0)
    values[::3] = np.nan
    block, moved = np.empty((2, 16))
    scratch = (block, moved, np.empty(16, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    number, bad = picking.scan(values, residual, nothing, 0.0, 1.0, 0, *scratch)
    assert bad.tolist() == list(range(0, 1000, 3))
    assert residual.tolist() == [1 if place % 3 == 0 else 2 for place in range(1000)]
    assert number == 1000


def test_a_sample_is_of_what_would_be_gathered() -> None:
    values, sizes = np.full(4096, 2.0), np.zeros(64, np.int64)
    picking.sample(values, values, values, 0.5, 3.0, sizes)
    assert set(sizes.view(np.float64).tolist()) == {6 + 1 + 2}


def test_ties_go_to_the_first() -> None:
    places, sizes, chosen = np.array([1, 4, 6, 8]), np.array([5, 7, 5, 5], np.int32), np.zeros(3, np.int64)
    assert picking.choose(places, sizes, 5, 2, chosen) == 3
    assert chosen.tolist() == [1, 4, 6]
