"""Barriers: for the n-th report or save of all workers, which have arrived, and which one evaluates or writes."""

from dataclasses import dataclass, field

from weft.runtime.messages import Evaluated, Message, Reported


@dataclass
class Barrier:
    """The messages of workers that have arrived, by rank, and whether one was chosen to evaluate or write the model."""

    epoch: int
    has_callables: bool
    came: dict[int, Message] = field(default_factory=dict)
    is_decided: bool = False
    evaluated: Evaluated | None = None

    def chooses(self, num_workers: int, *, is_alike: bool) -> bool:
        """Whether the worker that has just arrived is chosen to evaluate or write.

        If all replicas are alike (`is_alike`), the first to arrive is chosen; else the last, when all others have come.
        """
        chosen = not self.is_decided and (is_alike or len(self.came) == num_workers)
        self.is_decided = self.is_decided or chosen
        return chosen

    def means(self) -> dict[str, float]:
        """The mean of each number over the workers that reported it."""
        reports = [message for message in self.came.values() if isinstance(message, Reported)]
        names = dict.fromkeys(name for report in reports for name in report.numbers)
        told = {n: [report.numbers[n] for report in reports if n in report.numbers] for n in names}
        return {name: sum(values) / len(values) for name, values in told.items()}


def left_to_worker_0(barriers: dict[int, Barrier]) -> list[int]:
    """Numbers of barriers at which no worker was chosen, because some never came, but worker 0 did: it does them."""
    return [number for number, barrier in sorted(barriers.items()) if not barrier.is_decided and 0 in barrier.came]
