"""Whether replicas that are to be equal are: workers' digests of the same step are compared, tensor by tensor."""

from collections.abc import Mapping

from weft.core.errors import ReplicasDiffer
from weft.core.names import NodeId

Digests = Mapping[str, int]
"""Of each tensor, by name."""
END = -1
"""The number of the look at the end of a run; those before are numbered as its reports."""


class Consensus:
    """Takes every worker's digests and compares them when all have come. Only those of one step can be equal."""

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        self._came: dict[int, dict[NodeId, tuple[int, Digests]]] = {}
        self._equal: set[int] = set()

    def take(self, worker: NodeId, number: int, step: int, digests: Digests) -> None:
        """A worker's replica has these digests after so many steps; raises ReplicasDiffer if that is not as it is to
        be."""
        came = self._came.setdefault(number, {})
        came[worker] = step, digests
        if len(came) < self._num_workers:
            return
        del self._came[number]
        first_step, first = came[0]
        alike = [rank for rank, (at, _) in sorted(came.items()) if at == first_step]
        for rank in alike:
            _check(rank, first_step, first, came[rank][1])
        if len(alike) == self._num_workers:
            self._equal.add(number)

    def distance(self, number: int) -> float | None:
        """How far the replicas were apart at a look: 0 if all were compared, else it is not known."""
        return 0.0 if number in self._equal else None


def _check(rank: NodeId, step: int, first: Digests, mine: Digests) -> None:
    """Refuse a replica with other digests than worker 0's."""
    wrong = [name for name, digest in first.items() if mine.get(name) != digest]
    if wrong:
        others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ReplicasDiffer(
            f"'{wrong[0]}'{others} of worker {rank} differs from worker 0's after step {step}, though this strategy "
            "keeps all replicas equal.\n  Look for what the script writes to its model on some workers only: let all "
            "write the same."
        )
