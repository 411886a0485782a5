"""The world a peer lives in: all nodes, their roles and hosts, the graph, the buckets, the view."""

from dataclasses import dataclass, field

from weft.core.graph import Graph
from weft.core.names import GRADIENT, PARAMS, Bucket, Buffer, NodeId, Role, Roles


@dataclass(frozen=True)
class World:
    """What every node knows before it starts; workers have the ids below `num_workers`, servers follow.

    `hosts[node]` is the number of the host on which a node runs. `params[b]` and `gradient[b]` name
    the buckets of those slots, ready made because peers say them so often.
    """

    roles: Roles
    buckets: tuple[Bucket, ...]
    graph: Graph | None = None
    hosts: tuple[int, ...] = ()
    view: int = 0
    workers: tuple[NodeId, ...] = field(init=False)
    servers: tuple[NodeId, ...] = field(init=False)
    trainable: tuple[int, ...] = field(init=False)
    tuned: int | None = field(init=False)
    """The bucket of hyper-parameters, for a strategy that tunes them and a script that lets it."""
    params: tuple[Buffer, ...] = field(init=False, repr=False)
    gradient: tuple[Buffer, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        num_workers, num_servers = self.roles
        object.__setattr__(self, "workers", tuple(range(num_workers)))
        object.__setattr__(self, "servers", tuple(range(num_workers, num_workers + num_servers)))
        object.__setattr__(self, "trainable", tuple(i for i, b in enumerate(self.buckets) if b.trainable))
        object.__setattr__(self, "tuned", next((i for i, b in enumerate(self.buckets) if b.tuned), None))
        for slot in (PARAMS, GRADIENT):
            object.__setattr__(self, slot, tuple(Buffer(slot, i) for i in range(len(self.buckets))))

    @property
    def num_workers(self) -> int:
        return self.roles.num_workers

    @property
    def num_nodes(self) -> int:
        return self.roles.num_workers + self.roles.num_servers

    def role(self, node: NodeId) -> Role:
        return Role.WORKER if node < self.roles.num_workers else Role.SERVER

    def name(self, node: NodeId) -> str:
        """How people call a node: 'worker 3', 'server 0'."""
        if node < self.roles.num_workers:
            return f"worker {node}"
        return f"server {node - self.roles.num_workers}"

    def server_of(self, bucket: int) -> NodeId:
        """The server that keeps a bucket: they are dealt in turn."""
        return self.servers[bucket % len(self.servers)]

    def buckets_of(self, server: NodeId) -> tuple[int, ...]:
        """The trained buckets that a server keeps; none when there are more servers than buckets."""
        return tuple(bucket for bucket in self.trainable if self.server_of(bucket) == server)
