"""Shared updates of which a worker is lost: who finishes its stretch, when, and who takes it over."""

from collections.abc import Callable, Sequence
from typing import Any

from support.processes.one_host import Host

from weft.core.names import Bucket
from weft.runtime.reduce.shared import NUMBER_BITS, READY
from weft.runtime.shared_params import COMMITTED, STEPPING, SharedParams
from weft.store.journal import Journal, JournalOf

BUCKETS = (Bucket(96), Bucket(192))
Spans = Sequence[tuple[int, int]]


class Replica:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.finished: list[tuple[Spans, int, bool]] = []
        self.spans: list[Spans] = []

    def journal_updates(self, journal: JournalOf) -> None:
        self.journal = journal

    def begin_update(self) -> None:
        self.num_updates = getattr(self, "num_updates", 0) + 1

    def respan(self, spans: Spans) -> None:
        self.spans.append(spans)

    def finish_update(
        self, spans: Spans, journal: JournalOf, first: int, undo: Callable[[list[Any]], None] | None
    ) -> None:
        self.finished.append((spans, first, undo is not None))


class Update:
    """Three workers of one host, whose waits are looked at rather than waited for."""

    def __init__(self) -> None:
        self.host = Host(3, BUCKETS)
        self.replicas = [Replica() for _ in range(3)]
        self.waits: list[list[Callable[[], bool]]] = [[], [], []]
        self.params = [self._params(rank) for rank in range(3)]

    def _params(self, rank: int) -> SharedParams:
        arena = self.host.arenas[rank]
        views = [arena.view("params", bucket) for bucket in range(len(BUCKETS))]
        wait = self.waits[rank].append
        return SharedParams(arena, self.host.bells[rank], wait, views, lambda b, e: "w", self.replicas[rank])

    def reduced(self, number: int, *ranks: int) -> None:
        for rank in ranks:
            arena = self.host.arenas[rank]
            for bucket in range(len(BUCKETS)):
                arena.words[arena.reduction_line(0, bucket, rank) + READY] = number

    def update(self, *ranks: int) -> None:
        for rank in ranks:
            self.params[rank].update(lambda: None)

    def word(self, rank: int, which: int) -> int:
        arena = self.host.arenas[0]
        return arena.words[arena.worker_line(rank) + which]

    def is_done(self, rank: int) -> bool:
        """Whether this worker's last wait is over: all have committed."""
        return self.waits[rank][-1]()


def test_the_lowest_of_the_others_finishes_what_a_lost_worker_had_not_begun_once_all_have_committed() -> None:
    run = Update()
    run.reduced(1, 0, 1, 2)
    run.update(1)
    for params in run.params:
        params.lose([0])
    stepping, committed = run.waits[1]
    assert (stepping(), committed()) == (False, False), "worker 2 may still read, and the lost one is not awaited"
    assert run.replicas[1].finished == []
    run.update(2)
    assert stepping()
    assert not run.is_done(2), "worker 1 does it"
    assert run.is_done(1)
    assert run.replicas[1].finished == [([(0, 32), (0, 64)], 0, False)]
    assert run.replicas[2].finished == []
    assert run.is_done(2)
    assert (run.word(0, STEPPING), run.word(0, COMMITTED)) == (1, 1)
    assert run.is_done(1)
    assert len(run.replicas[1].finished) == 1, "once"


def test_a_worker_that_had_committed_leaves_nothing_to_do() -> None:
    run = Update()
    run.reduced(1, 0, 1, 2)
    run.update(2)
    for params in run.params:
        params.lose([2])
    run.update(0, 1)
    assert run.is_done(0)
    assert run.is_done(1)
    assert run.replicas[0].finished == []


def test_what_is_half_updated_is_undone_and_finished_from_there() -> None:
    run = Update()
    run.reduced(1, 0, 1, 2)
    arena = run.host.arenas[2]
    journal = Journal(arena)
    journal.begin(2)
    arena.words[arena.worker_line(2) + STEPPING] = 1
    journal.keep(2, 1, [])
    for params in run.params:
        params.lose([2])
    run.update(0, 1)
    assert run.is_done(0)
    assert run.replicas[0].finished == [([(64, 96), (128, 192)], 1, True)]


def test_the_reductions_of_a_view_are_applied_by_its_members_and_earlier_ones_as_they_were_begun() -> None:
    run = Update()
    run.reduced(5, 0, 1, 2)
    for params in run.params:
        params.lose([1])
        params.change_members([0, 2], 1)
    run.update(0, 2)
    assert run.is_done(0)
    assert run.replicas[0].spans == [], "the reduction is of the view before"
    assert run.replicas[0].finished == [([(32, 64), (64, 128)], 0, False)]
    run.reduced((1 << NUMBER_BITS) + 1, 0, 2)
    run.update(0, 2)
    assert run.is_done(0)
    assert run.replicas[0].spans == [[(0, 32), (0, 96)]]
    assert run.replicas[2].spans == [[(32, 96), (96, 192)]]
    assert len(run.replicas[0].finished) == 1
