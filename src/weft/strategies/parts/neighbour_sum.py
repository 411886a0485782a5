"""The weighted parameters of one gossip round, as they come in."""

from collections.abc import Collection, Mapping

from weft.core.actions import Combine, add
from weft.core.names import Buffer, NodeId
from weft.core.peer import Actions
from weft.core.world import World


class NeighbourSum:
    """The parameters of one round that are in its sums, and how many bodies are missing.

    `row` holds the mixing weights of all who take part; `by_samples` puts their samples in place of them. `as_change`:
    the sum is by how much mixing changes the own parameters, which may be written to meanwhile.
    What one who has left did not send is replaced by the own parameters: its weight goes to them, so that
    weights still add up to 1, and every two who stay still take as much from each other.
    """

    def __init__(
        self,
        me: NodeId,
        world: World,
        view: int,
        sums: Mapping[int, Buffer],
        row: Mapping[NodeId, float],
        by_samples: bool = False,
        as_change: bool = False,
    ) -> None:
        self._me = me
        self._params = world.params
        self._sums = sums
        self._row = row
        self._by_samples = by_samples
        self._as_change = as_change
        self.view = view
        """Whose graph the round goes over."""
        self.missing = len(row) * len(sums)
        self.weight: dict[int, float] = {}
        """The samples in the sum of each bucket, where samples are the weights."""
        self.arrived: dict[int, list[NodeId]] = {}
        """Whose parameters are in the sum of each bucket."""
        self.gone: list[NodeId] = []
        """Who takes part no more."""

    def expects(self, source: NodeId) -> bool:
        return source in self._row

    def add(self, source: NodeId, bucket: int, body: Buffer, samples: float) -> Combine:
        self.missing -= 1
        arrived = self.arrived.get(bucket)
        if self._by_samples:
            weight = samples
            self.weight[bucket] = self.weight.get(bucket, 0.0) + samples
        else:
            weight = self._row[source] - (1.0 if self._as_change and source == self._me else 0.0)
            if self.gone and source == self._me:
                weight += sum(self._row[node] for node in self.gone if node not in (arrived or ()))
        if arrived is None:
            self.arrived[bucket] = [source]
            return Combine(self._sums[bucket], 0.0, body, weight)
        arrived.append(source)
        return Combine(self._sums[bucket], 1.0, body, weight)

    def forget(self, departed: Collection[NodeId]) -> Actions:
        """Expect nothing more of those who have left."""
        actions: Actions = []
        for node in self._row:
            if node not in departed or node in self.gone:
                continue
            self.gone.append(node)
            for bucket, total in self._sums.items():
                arrived = self.arrived.get(bucket, ())
                if node in arrived:
                    continue
                self.missing -= 1
                if self._me in arrived and not self._by_samples:
                    actions.append(add(total, self._params[bucket], self._row[node]))
        return actions

    def late(self) -> list[NodeId]:
        """Whose parameters are missing."""
        expected = set(self._row).difference(self.gone)
        return sorted({node for bucket in self._sums for node in expected.difference(self.arrived.get(bucket, ()))})
