"""Whether replicas that are to be equal are: workers' digests of the same step are compared, tensor by tensor.

Processors of different kinds may round the same update differently. Their replicas may be apart by a little, which is
told once; anywhere else a difference of one bit is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot

from weft.core.errors import ReplicasDiffer
from weft.core.names import NodeId

Digests = Mapping[str, int]
"""Of each tensor, by name."""
Sketches = Mapping[str, Sequence[float]]
"""Of each tensor, by name: its norm, and sums whose differences are about as long as that of the tensors."""
END = -1
"""The number of the look at the end of a run; those before are numbered as its reports."""
APART_MAX = 1e-3
"""How far rounding may bring a tensor from worker 0's, relative to its norm. All apply the same gradients, so that what
rounding does adds up, but does not grow by itself: to 1e-5 in ten thousand steps of float32."""


@dataclass(frozen=True)
class Look:
    """What a worker tells of its replica after so many steps."""

    step: int
    digests: Digests
    sketches: Sketches = field(default_factory=dict)
    """None where all are on one host."""
    processor: str = ""
    """Of what kind it is; '': of the same as all."""


class Consensus:
    """Takes every worker's looks and compares them when all have come. Only those of one step can be equal."""

    def __init__(self, num_workers: int) -> None:
        self._members = set(range(num_workers))
        self._came: dict[int, dict[NodeId, Look]] = {}
        self._distances: dict[int, float] = {}
        self._has_warned = False

    def lose(self, worker: NodeId) -> list[str]:
        """A worker is lost: its replica is not awaited any more. Looks that all others have told are compared now, as
        by `take`; returns what is to be told."""
        self._members.discard(worker)
        told = [self._compare(number) for number in sorted(self._came)]
        return [text for text in told if text is not None]

    def welcome(self, worker: NodeId) -> None:
        """A newcomer has come in: from now on its replica is compared, too."""
        self._members.add(worker)
        self._came.clear()  # of what was told before, it tells nothing

    def take(self, worker: NodeId, number: int, look: Look) -> str | None:
        """A worker's replica looks so; raises ReplicasDiffer if that is not as it is to be.

        What it gives, once, is to be told: replicas are apart by rounding.
        """
        self._came.setdefault(number, {})[worker] = look
        return self._compare(number)

    def _compare(self, number: int) -> str | None:
        came = self._came[number]
        if not self._members <= came.keys():
            return None
        del self._came[number]
        least = min(self._members)
        first = came[least]
        alike = [rank for rank, theirs in sorted(came.items()) if rank in self._members and theirs.step == first.step]
        apart = [(*_farthest(rank, least, first, came[rank]), rank) for rank in alike]
        distance, name, rank = max(apart)
        if len(alike) == len(self._members):
            self._distances[number] = distance
        if not name or self._has_warned:
            return None
        self._has_warned = True
        return (
            f"replicas are not equal bit by bit: processors of worker {least} ({first.processor}) and worker {rank} "
            f"({came[rank].processor}) round differently. '{name}' is farthest apart after step {first.step}, by "
            f"{distance:.1e} of its norm; up to {APART_MAX:g} is borne."
        )

    def distance(self, number: int) -> float | None:
        """How far the replicas were apart at a look: 0 if all were compared and equal; None if it is not known."""
        return self._distances.get(number)


def _farthest(rank: NodeId, least: NodeId, first: Look, mine: Look) -> tuple[float, str]:
    """How far the tensor is from worker `least`'s that is farthest, and its name; '' if all are equal.

    Refuses a replica that rounding alone does not explain.
    """
    wrong = [name for name, digest in first.digests.items() if mine.digests.get(name) != digest]
    if not wrong:
        return 0.0, ""
    may_round = mine.processor != first.processor
    apart = {name: _apart(first.sketches.get(name), mine.sketches.get(name)) for name in wrong} if may_round else {}
    if apart and all(distance <= APART_MAX for distance in apart.values()):
        return max((distance, name) for name, distance in apart.items())
    others = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    farther = " by more than their processors' rounding" if may_round else ""
    raise ReplicasDiffer(
        f"'{wrong[0]}'{others} of worker {rank} differs from worker {least}'s{farther} after step {first.step}, though "
        "this strategy keeps all replicas equal.\n  Look for what the script writes to its model on some workers only: "
        "let all write the same."
    )


def _apart(first: Sequence[float] | None, mine: Sequence[float] | None) -> float:
    """How far two tensors are apart, relative to their norm, by their sketches."""
    if not first or not mine:
        return float("inf")
    distance = hypot(*(a - b for a, b in zip(first[1:], mine[1:], strict=True)))
    return distance / max(first[0], mine[0]) if distance else 0.0
