"""Who has come into a run, and before which step: who has made none since has nothing to be compared by."""

from collections.abc import Collection

from weft.core.names import NodeId
from weft.strategies.parts.live_graph import Nodes


class Arrivals:
    """The workers that came last.

    Newcomers come when all stand before the same step (decision 0040). If an epoch ended with the step before, all
    others report it only then, and compare what they have: a newcomer has made no step of it, and may not report it.
    """

    def __init__(self) -> None:
        self.step = -1
        """The step before which workers came last."""
        self.workers: set[NodeId] = set()
        """Who did."""

    def note(self, workers: Collection[NodeId], step: int) -> None:
        """Workers came before a step; others may have come before the same one."""
        self.workers = {*workers, *(self.workers if step == self.step else ())}
        self.step = step

    def are_compared(self, workers: Nodes, step: int) -> Nodes:
        """Those of the workers that stand in a comparison before a step."""
        return workers if step != self.step else tuple(worker for worker in workers if worker not in self.workers)
