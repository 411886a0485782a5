"""Proportional shares: every global batch is cut so that all workers need equally long for their parts of it.

The total stays that of static shares, and so does the number of steps; only the cuts between workers move.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from weft.data.static import Span

EVERY = 8
"""After so many steps of a share the cuts may move."""
TOLERANCE = 0.1
"""They do when the slowest worker needs longer than the mean by more than this part of it; by twice that if it is known
from one block only, and by more if from less, as in short shares."""
REFINEMENTS = 3
"""So often they move once more afterwards, however little, each time after twice as many blocks: parts that were
measured with others are not quite right where a step also costs something that does not depend on its samples."""
NEWEST = 0.2
"""The least weight of the newest block in a worker's pace, which is else the mean since the last move."""
FAR = 1.5
"""A pace that is so many times the one before, or as small a part of it, is a hiccup, unless
it is so twice running."""


def counts(size: int, fractions: Sequence[float]) -> list[int]:
    """So many samples in whole parts of about these fractions, by largest remainder; nobody has less than 1."""
    parts = [1] * len(fractions)
    rest = list(range(len(fractions)))
    while True:
        left, whole = size - len(parts) + len(rest), sum(fractions[worker] for worker in rest)
        ideal = {worker: left * fractions[worker] / whole for worker in rest}
        fitting = [worker for worker in rest if ideal[worker] >= 1]
        if len(fitting) == len(rest):
            break
        rest = fitting
    for worker in rest:
        parts[worker] = int(ideal[worker])
    by_remainder = sorted(rest, key=lambda worker: (parts[worker] - ideal[worker], worker))
    for worker in by_remainder[: size - sum(parts)]:
        parts[worker] += 1
    return parts


@lru_cache(maxsize=64)
def _stops(size: int, fractions: tuple[float, ...]) -> tuple[int, ...]:
    """Where parts end, a 0 before them; kept, because a thousand simulated workers want the same ones."""
    return tuple(accumulate(counts(size, fractions), initial=0))


def part_of(span: Span, rank: int, fractions: Sequence[float]) -> Span:
    """One worker's contiguous part of a global batch that is cut by these fractions."""
    start, stops = span[0], _stops(span[1] - span[0], tuple(fractions))
    return start + stops[rank], start + stops[rank + 1]


def parts_of(
    spans: Iterable[Span], rank: int, every: int, fractions_of: Callable[[int], Sequence[float]]
) -> Iterator[Span]:
    """One worker's parts of a share's global batches; asks for the fractions of a block when its first one is drawn."""
    fractions: Sequence[float] = ()
    for step, span in enumerate(spans):
        if step % every == 0:
            fractions = fractions_of(step // every)
        yield part_of(span, rank, fractions)


class Done(NamedTuple):
    """What a worker has done since the beginning of the run, in how many seconds of its own, without waiting."""

    steps: int = 0
    samples: float = 0.0
    seconds: float = 0.0


class WorkerPace:
    """One worker's own seconds for a sample."""

    def __init__(self, every: int) -> None:
        self.seconds: float | None = None
        self.blocks = 0.0
        """Of how many blocks of steps it is the mean: those since the last move."""
        self.done = Done()
        self._measured = Done()
        self._every = every
        self._seemed_slower: bool | None = None
        """The block before was so much slower or faster that it was not believed; None: it was."""

    def measure(self) -> None:
        """Take in what was done since the last time; nothing changes if nothing was."""
        steps, samples, seconds = (now - before for now, before in zip(self.done, self._measured, strict=True))
        if steps <= 0 or samples <= 0 or seconds <= 0:
            return
        self._measured = self.done
        newest, blocks = seconds / samples, steps / self._every
        if self.seconds is None or not self.blocks:
            self.seconds, self.blocks = newest, blocks
        elif not 1 / FAR < newest / self.seconds < FAR:
            is_slower = newest > self.seconds
            if is_slower is not self._seemed_slower:
                self._seemed_slower = is_slower
                return
            self.seconds, self.blocks = newest, blocks
        else:
            self.blocks += blocks
            self.seconds += max(blocks / self.blocks, min(1.0, NEWEST * blocks)) * (newest - self.seconds)
        self._seemed_slower = None


class Fractions:
    """What part of a global batch each worker takes, block by block of every share.

    Whoever is first to ask for a block fixes it for everybody, with what is known of all workers at that moment, so
    that nobody waits for another. A worker's pace is its own time for a sample, without waiting, at the part that it
    has; its new part is what that pace does in the time that all need.
    """

    def __init__(self, num_workers: int, every: int = EVERY) -> None:
        self._num_workers = num_workers
        self.now = (1 / num_workers,) * num_workers
        """Those of the block that was decided last."""
        self._paces = [WorkerPace(every) for _ in range(num_workers)]
        self._num_refined = REFINEMENTS
        """How often they have moved since they were far off."""
        self._decided: dict[tuple[int, int], tuple[float, ...]] = {}
        """By share and block, until every worker has asked."""
        self._num_asked: dict[tuple[int, int], int] = {}

    def tell(self, worker: int, done: Done) -> None:
        """What a worker has done so far; what is older than the last word changes nothing."""
        if done.steps > self._paces[worker].done.steps:
            self._paces[worker].done = done

    def is_decided(self, share: int, block: int) -> bool:
        """Somebody has asked for this block, and not everybody."""
        return (share, block) in self._decided

    def ask(self, share: int, block: int) -> tuple[float, ...]:
        """The fractions of a block, the same for every worker; each asks once."""
        key = share, block
        if key not in self._decided:
            self._decide()
            self._decided[key] = self.now
        fractions = self._decided[key]
        self._num_asked[key] = self._num_asked.get(key, 0) + 1
        if self._num_asked[key] == self._num_workers:
            del self._decided[key], self._num_asked[key]
        return fractions

    def _decide(self) -> None:
        for pace in self._paces:
            pace.measure()
        paces = [pace.seconds for pace in self._paces if pace.seconds is not None]
        blocks = min(pace.blocks for pace in self._paces)
        if not blocks:
            return
        times = [fraction * seconds for fraction, seconds in zip(self.now, paces, strict=True)]
        if max(times) > (1 + TOLERANCE * (1 + 1 / blocks)) * sum(times) / len(times):
            self._num_refined = 0
        elif self._num_refined < REFINEMENTS and blocks >= 2**self._num_refined:
            self._num_refined += 1
        else:
            return
        speed = sum(1 / seconds for seconds in paces)
        self.now = tuple(1 / seconds / speed for seconds in paces)
        for pace in self._paces:
            pace.blocks = 0.0
