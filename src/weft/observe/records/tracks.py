"""What is kept of a run for its timeline and its trace: spans, steps, messages and reductions."""

from collections.abc import Iterator
from typing import TypeVar

from msgspec import Struct

Span = tuple[str, float, float]
"""What a worker's script did (a word of core/activity.py), from when to when."""

Record = TypeVar("Record")

RECORDS_MAX = 500_000
"""What is kept of one run; what comes later is counted."""


VIEW_BITS = 40
"""Messages of a view are numbered from `view << VIEW_BITS` on."""


class Numbering:
    """Counts the messages from each node to each other, at one end."""

    def __init__(self) -> None:
        self._first = 0
        self._counts: dict[tuple[bool, int, int], int] = {}

    def enter_view(self, view: int) -> None:
        """Count anew, in numbers that no other view has: what is sent in a view is received in it."""
        self._first = view << VIEW_BITS
        self._counts.clear()

    def next(self, is_sent: bool, source: int, target: int) -> int:
        channel = is_sent, source, target
        number = self._counts[channel] = self._counts.get(channel, self._first) + 1
        return number


class Passage(Struct, frozen=True, array_like=True):
    """One end of a message: it was sent, or it was received and answered."""

    is_sent: bool
    source: int
    target: int
    number: int
    """Its place among all messages from this source to this target: channels are FIFO, so both ends count alike."""
    kind: str
    clock: int
    num_bytes: int
    start_s: float
    stop_s: float

    @property
    def node(self) -> int:
        """Where it happened."""
        return self.source if self.is_sent else self.target


class Reduction(Struct, frozen=True, array_like=True):
    """A reduction that was done natively, from a worker's contribution until it had the result."""

    node: int
    kind: str
    clock: int
    bucket: int
    num_bytes: int
    start_s: float
    stop_s: float


class Incident(Struct, frozen=True):
    """What happened to a worker at one moment: it was lost, it was replaced, and so on."""

    worker: int
    at_s: float
    """Since the run began."""
    what: str
    about: dict[str, int | str]


class Traced(Struct, frozen=True, tag=True):
    """From a worker to its engine: what has happened there since it told last."""

    spans: list[Span]
    steps: list[tuple[int, float]]
    """How many steps it had made, and since when."""
    passages: list[Passage]
    reductions: list[Reduction]
    num_dropped: int = 0
    """Records that could not be kept, so far."""

    @property
    def num_records(self) -> int:
        return len(self.spans) + len(self.steps) + len(self.passages) + len(self.reductions)


class Tracks:
    """All that is kept of one run; times count from `began_s`, which is when all had joined."""

    def __init__(self, num_workers: int, records_max: int = RECORDS_MAX) -> None:
        self.num_workers = num_workers
        self.began_s = 0.0
        self.spans: list[list[Span]] = [[] for _ in range(num_workers)]
        self.steps: list[list[tuple[int, float]]] = [[] for _ in range(num_workers)]
        self.passages: list[Passage] = []
        self.reductions: list[Reduction] = []
        self.incidents: list[Incident] = []
        self.stretch: list[list[Span]] | None = None
        """What a timeline shows, when all else has been let go."""
        self._records_max = records_max
        self._num_records = 0
        self._num_late = 0
        self._num_dropped = [0] * num_workers

    @property
    def num_dropped(self) -> int:
        """Records that could not be kept, by a worker or here."""
        return self._num_late + sum(self._num_dropped)

    def take(self, rank: int, told: Traced) -> None:
        """Keep what a worker told, as long as there is room."""
        self._num_dropped[rank] = told.num_dropped
        if self._num_records + told.num_records > self._records_max:
            self._num_late += told.num_records
            return
        self._num_records += told.num_records
        self.spans[rank] += told.spans
        self.steps[rank] += told.steps
        self.passages += told.passages
        self.reductions += told.reductions

    def keep(self, records: list[Record], record: Record) -> None:
        """Add one record to those of its sort, as long as there is room."""
        if self._num_records < self._records_max:
            self._num_records += 1
            records.append(record)
        else:
            self._num_late += 1

    def since_begin(self, rank: int) -> Iterator[Span]:
        """What a worker's script did, in seconds of the run."""
        return ((what, start_s - self.began_s, stop_s - self.began_s) for what, start_s, stop_s in self.spans[rank])
