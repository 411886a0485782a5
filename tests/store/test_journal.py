"""The journal of a shared update: old values come back, whoever asks for them."""

from typing import Any

import numpy as np
from support.processes.one_host import Host

from weft.core.names import Bucket
from weft.store.journal import Journal, JournalOf

BUCKETS = (Bucket(100), Bucket(37, 8))


def test_old_values_come_back_in_another_process() -> None:
    host = Host(2, BUCKETS)
    mine, others = Journal(host.arenas[1]), Journal(host.arenas[0])
    first, second = np.arange(19.0, dtype=np.float32), np.arange(19.0)
    mine.begin(1)
    assert (others.reached(1), others.is_torn(1)) == (0, False)
    JournalOf(mine, 1).keep(1, [first, second])
    assert (others.reached(1), others.is_torn(1)) == (1, True)
    found: list[Any] = [np.zeros(19, np.float32), np.zeros(19)]
    others.undo(1, found)
    assert np.array_equal(found[0], first)
    assert np.array_equal(found[1], second)
    JournalOf(mine, 1).done(1)
    assert (others.reached(1), others.is_torn(1)) == (2, False)


def test_workers_have_journals_of_their_own() -> None:
    host = Host(2, BUCKETS)
    journal = Journal(host.arenas[0])
    for worker in range(2):
        journal.keep(worker, worker, [np.full(37, float(worker + 1))])
    for worker in range(2):
        found = np.zeros(37)
        journal.undo(worker, [found])
        assert (found == worker + 1).all()
    assert [journal.reached(worker) for worker in range(2)] == [0, 1]


def test_the_largest_stretch_fits_with_all_rows_of_state() -> None:
    host = Host(1, BUCKETS)
    arrays = [np.full(100, float(row), np.float32) for row in range(9)]
    journal = Journal(host.arenas[0])
    journal.keep(0, 0, arrays)
    found = [np.zeros(100, np.float32) for _ in arrays]
    journal.undo(0, found)
    assert all((array == row).all() for row, array in enumerate(found))
