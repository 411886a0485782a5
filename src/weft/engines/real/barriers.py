"""The n-th report, or the n-th save, of all workers: who has come, who is to do it, and what all told."""

from dataclasses import dataclass, field

from weft.runtime.messages import Evaluated, Message, Reported


@dataclass
class Barrier:
    """Who has come, and whether somebody was chosen to evaluate or write the model."""

    epoch: int
    has_callables: bool
    came: dict[int, Message] = field(default_factory=dict)
    is_decided: bool = False
    evaluated: Evaluated | None = None

    def chooses(self, num_workers: int, *, is_alike: bool) -> bool:
        """Whether the one who came last is chosen: the first to come if all models are alike, else the last of all,
        who finds everybody's work done."""
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
    """What nobody has done because not everybody came; worker 0 does it in the end if it came."""
    return [number for number, barrier in sorted(barriers.items()) if not barrier.is_decided and 0 in barrier.came]
