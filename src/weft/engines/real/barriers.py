"""Barriers: for the n-th report or save of all workers, which have arrived, and which one evaluates or writes."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from weft.runtime.messages import Evaluated, Message, Reported


@dataclass
class Barrier:
    """The messages of workers that have arrived, by rank, and whether one was chosen to evaluate or write the model."""

    epoch: int
    has_callables: bool
    came: dict[int, Message] = field(default_factory=dict)
    chosen: int | None = None
    """The worker that was chosen."""
    evaluated: Evaluated | None = None
    excused: set[int] = field(default_factory=set)
    """Newcomers, whose scripts begin behind it."""

    def has_all(self, members: Set[int]) -> bool:
        """Whether all workers have arrived that still take part."""
        return members - self.excused <= self.came.keys()

    @property
    def is_decided(self) -> bool:
        return self.chosen is not None

    def chooses(self, worker: int, members: Set[int], *, is_alike: bool) -> bool:
        """Whether `worker`, which has just arrived, is chosen to evaluate or write.

        If all replicas are alike (`is_alike`), the first to arrive is chosen; else the last, when all others have come.
        """
        if self.is_decided or not (is_alike or self.has_all(members)):
            return False
        self.chosen = worker
        return True

    def means(self) -> dict[str, float]:
        """The mean of each number over the workers that reported it."""
        reports = [message for message in self.came.values() if isinstance(message, Reported)]
        names = dict.fromkeys(name for report in reports for name in report.numbers)
        told = {n: [report.numbers[n] for report in reports if n in report.numbers] for n in names}
        return {name: sum(values) / len(values) for name, values in told.items()}


def welcome(newcomer: int, sponsor: int, barriers: Iterable[Barrier]) -> None:
    """`newcomer` makes no report or save that its sponsor has made, or began behind, and makes the others itself, also
    those that its predecessor had made."""
    for barrier in barriers:
        if sponsor in barrier.came.keys() | barrier.excused:
            barrier.excused.add(newcomer)
        else:
            barrier.came.pop(newcomer, None)
            barrier.excused.discard(newcomer)


def arrived(barrier: Barrier, members: Set[int]) -> Set[int]:
    """The members that have come to a barrier themselves, not only their predecessors."""
    return (members & barrier.came.keys()) - barrier.excused


def left_to(worker: int, barriers: dict[int, Barrier]) -> list[int]:
    """Numbers of barriers at which no worker was chosen, because some never came, but `worker` did: it does them."""
    return [
        number for number, barrier in sorted(barriers.items()) if not barrier.is_decided and arrived(barrier, {worker})
    ]
