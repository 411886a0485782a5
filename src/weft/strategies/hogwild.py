"""Lock-free SGD: all workers of a host write one replica, whoever comes when."""

from dataclasses import dataclass
from random import Random

from weft.core.actions import Compute
from weft.core.errors import ConfigError
from weft.core.events import StepFinished
from weft.core.invariants import Invariant, holds
from weft.core.names import NodeId
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient


@dataclass(frozen=True)
class Hogwild(Strategy):
    """Hogwild! (Niu et al., NIPS 2011, algorithm 1; Project Adam's threads, Chilimbi et al., OSDI 2014, section 4.2).

    There is one replica in the memory that all workers share. Each reads it whenever it likes, and adds its own
    update without a lock: two that write the same number at the same time may lose one of the writes. Where
    gradients are sparse that is rare; one worker is plain SGD. Each worker keeps its optimizer's state for itself.
    It is for the workers of one host, and sends nothing; one that is out can write until its process ends. A newcomer
    reads and writes the same replica.
    """

    entry = Entry(
        "hogwild",
        "Hogwild! (Niu et al. 2011)",
        "all workers of a host write one replica, without locks",
    )

    @property
    def welcomes(self) -> bool:
        return True

    @property
    def keeps_step(self) -> bool:
        return False

    @property
    def shares_replica(self) -> bool:
        return True

    def check(self, num_workers: int, num_hosts: int = 1) -> None:
        super().check(num_workers, num_hosts)
        if num_hosts > 1:
            raise ConfigError(
                f"'hogwild' writes one replica that all workers share, but {num_workers} workers would be spread over "
                f"{num_hosts} hosts, or talk by sockets.\n"
                "  Use 'async_gossip' or 'downpour' there, or workers of one host that share memory."
            )

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (holds("conservation.shared_replica_adds_up"),)

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return HogwildPeer(me, world, rng)


class HogwildPeer(Peer):
    """Applies its own gradient to the replica that is everybody's."""

    _inherits = ()

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        return [*apply_gradient(self.world, event.samples), Compute(self.step)]
