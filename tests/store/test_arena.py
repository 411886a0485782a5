"""The arena: memory that the workers of one host share."""

import itertools
import os
from collections.abc import Iterator

import numpy as np
import pytest

from weft.core.names import Bucket
from weft.store import arena as module
from weft.store.arena import ALIGN_ELEMENTS, LINE_WORDS, STATE_ROWS, Arena
from weft.store.pages import WrittenPages

BUCKETS = (Bucket(1000), Bucket(3, 8), Bucket(5000, 2), Bucket(7, 4, trainable=False))
TRAINED = (0, 1, 2)
REGIONS = [
    *("params", "reduced.0", "reduced.1", "given.0", "given.1", "given.2", "staged.0", "staged.1", "staged.2"),
    *(f"state.{k}" for k in range(STATE_ROWS)),
    *(f"device.{lane}.{place}" for lane in (0, 1) for place in range(4)),
]


@pytest.fixture
def arenas() -> Iterator[list[Arena]]:
    """Three workers' views, in one process."""
    fd = os.memfd_create("arena")
    yield [Arena(fd, rank, 3, BUCKETS, has_devices=True) for rank in range(3)]
    os.close(fd)


def test_what_one_worker_writes_all_read(arenas: list[Arena]) -> None:
    for place, region in enumerate(REGIONS):
        for bucket in range(len(BUCKETS)):
            arenas[place % 3].array(region, bucket)[:] = 10 * place + bucket
    for arena in arenas:
        for place, region in enumerate(REGIONS):
            for bucket, (num_elements, itemsize, *_) in enumerate(BUCKETS):
                array = arena.array(region, bucket)
                assert (array.size, array.itemsize) == (num_elements, itemsize)
                assert (array == 10 * place + bucket).all(), f"{region} shares memory with another region"
    assert not any(arenas[0].words), "nor do words and arrays"


def test_words_and_doubles_are_the_same_memory_and_every_line_is_a_workers_own(arenas: list[Arena]) -> None:
    first = arenas[0]
    kinds = (first.worker_line, first.sleeping_line, first.speed_line)
    lines = [line(worker) for worker in range(3) for line in kinds]
    lines += [first.reduction_line(*place) for place in np.ndindex(2, len(BUCKETS), 3)]
    assert len(set(lines)) == len(lines)
    assert all(line % LINE_WORDS == 0 for line in lines)
    for number, line in enumerate(lines):
        first.words[line] = number + 1
    assert [arenas[2].words[line] for line in lines] == list(range(1, len(lines) + 1))
    first.doubles[lines[0]] = 0.5
    assert arenas[1].doubles[lines[0]] == 0.5


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
def test_spans_cover_a_bucket_once_and_begin_on_cache_lines(num_workers: int) -> None:
    fd = os.memfd_create("arena")
    arena = Arena(fd, 0, num_workers, BUCKETS)
    os.close(fd)
    for bucket, (num_elements, *_) in enumerate(BUCKETS):
        spans = [arena.span(bucket, worker) for worker in range(num_workers)]
        assert (spans[0][0], spans[-1][1]) == (0, num_elements)
        assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
        assert all(start <= stop and start % ALIGN_ELEMENTS == 0 for start, stop in spans)


def test_workers_that_share_the_parameters_have_one_copy_of_those_they_train(arenas: list[Arena]) -> None:
    first, second = (arena.replica_memory(shares_params=True) for arena in arenas[:2])
    assert first.master is not None
    assert first.state is not None
    assert second.state is not None
    assert len(first.params) == 4
    assert len(first.given) == len(first.seen) == len(first.spans or ()) == 3
    for bucket in TRAINED:
        first.master[bucket][:] = 5.0
        first.given[bucket][:] = 6.0
        first.state(2, bucket)[:] = 7.0
        assert (first.params[bucket] == 5.0).all()
        assert (second.params[bucket] == 5.0).all()
        assert not second.given[bucket].any()
        assert (arenas[2].array("given.0", bucket) == 6.0).all()
        assert (second.state(2, bucket) == 7.0).all()
    first.params[3][:] = 8.0
    assert not second.params[3].any(), "BatchNorm's means are a worker's own"
    spans = [[arena.span(b, arena.local_rank) for b in TRAINED] for arena in arenas[:2]]
    assert [first.spans, second.spans] == spans


def test_what_a_script_writes_to_its_parameters_stays_its_own_and_is_noticed(arenas: list[Arena]) -> None:
    views = [arena.replica_memory(shares_params=True).params for arena in arenas]
    arenas[0].array("params", 0)[:] = 1.0
    views[1][0][:] *= 2.0
    assert [float(view[0][0]) for view in views] == [1.0, 2.0, 1.0]
    assert [arena.was_written("params", 0) for arena in arenas] == [False, True, False]
    assert arenas[1].refresh("params", 0, views[1][0]) == 1
    assert (views[1][0] == 1.0).all()


def test_workers_that_do_not_share_the_parameters_have_their_own(arenas: list[Arena]) -> None:
    first, second = (arena.replica_memory(shares_params=False) for arena in arenas[:2])
    for bucket in range(len(BUCKETS)):
        first.params[bucket][:] = 5.0
        assert not second.params[bucket].any()
    assert (first.spans, first.state) == (None, None)


def test_what_is_reduced_is_seen_by_all_without_a_copy(arenas: list[Arena]) -> None:
    seen = [arena.replica_memory(shares_params=True).seen for arena in arenas]
    for value in (1.0, 2.0):
        arenas[1].array("reduced.0", 0)[:] = value
        assert [arena.refresh("reduced.0", 0, each[0]) for arena, each in zip(arenas, seen, strict=True)] == [0, 0, 0]
        assert all((each[0] == value).all() for each in seen)


def test_an_edit_of_what_is_seen_stays_the_workers_own_and_is_gone_with_the_next_reduction(
    arenas: list[Arena],
) -> None:
    seen = [arena.replica_memory(shares_params=True).seen for arena in arenas]
    arenas[0].array("reduced.0", 2)[:] = 1.0
    seen[1][2][4000] = 9.0
    assert (seen[1][2][4000], seen[0][2][4000]) == (9.0, 1.0)
    assert arenas[1].array("reduced.0", 2)[4000] == 1.0
    for value in (2.0, 3.0):
        arenas[0].array("reduced.0", 2)[:] = value
        assert [arena.refresh("reduced.0", 2, each[2]) for arena, each in zip(arenas, seen, strict=True)] == [0, 1, 0]
        assert all((each[2] == value).all() for each in seen)
    assert arenas[1].refresh("reduced.0", 0, seen[1][0]) == 0, "other buckets are not copied"


def test_where_writes_cannot_be_known_everything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(WrittenPages):
        is_known = False

    monkeypatch.setattr(module, "WrittenPages", Blind)
    fd = os.memfd_create("arena")
    arena = Arena(fd, 0, 2, BUCKETS)
    os.close(fd)
    seen = arena.replica_memory(shares_params=False).seen
    arena.array("reduced.0", 0)[:] = 4.0
    assert arena.refresh("reduced.0", 0, seen[0]) == 1
    assert (seen[0] == 4.0).all()


def test_a_newcomer_has_no_stretch_of_the_shared_parameters_yet_and_takes_them_as_they_are(arenas: list[Arena]) -> None:
    arenas[0].array("params", 0)[:] = 5.0
    memory = arenas[1].replica_memory(shares_params=True, is_new=True)
    assert memory.is_under_way
    assert memory.spans == [(0, 0)] * len(TRAINED)
    assert (memory.params[0] == 5.0).all()
    assert memory.master is not None
    assert (memory.master[0] == 5.0).all()


@pytest.mark.parametrize("shares_params", [True, False])
def test_a_newcomer_does_not_find_its_predecessor_s_gradients(arenas: list[Arena], shares_params: bool) -> None:
    before = arenas[1].replica_memory(shares_params=shares_params).given
    for gradient in before:
        gradient[:] = np.nan
    arenas[0].array("given.0", 0)[:] = 7.0
    after = arenas[1].replica_memory(shares_params=shares_params, is_new=True).given
    assert all((gradient == 0).all() for gradient in after)
    assert (arenas[0].array("given.0", 0) == 7.0).all(), "others' stay as they are"


def test_a_newcomer_with_parameters_of_its_own_does_not_find_the_runs_in_them(arenas: list[Arena]) -> None:
    memory = arenas[1].replica_memory(shares_params=False, is_new=True)
    assert (memory.is_under_way, memory.spans) == (False, None)


@pytest.mark.parametrize("is_new", [True, False])
def test_parameters_that_all_write_without_locks_are_taken_by_a_newcomer_as_they_are(
    arenas: list[Arena], is_new: bool
) -> None:
    arenas[0].array("params", 0)[:] = 5.0
    memory = arenas[1].common_memory(is_new=is_new)
    assert memory.is_under_way == is_new
    assert (memory.params[0] == 5.0).all()
    assert memory.spans is None


def test_who_begins_with_the_run_does_not_find_it_under_way(arenas: list[Arena]) -> None:
    memories = [arenas[0].replica_memory(shares_params=shares) for shares in (True, False)]
    assert [memory.is_under_way for memory in [*memories, arenas[0].common_memory()]] == [False] * 3
