"""Stochastic gradient push: averaging over directed graphs, de-biased by a travelling weight."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from weft.core.actions import Combine, Compute, Send, add, copy, rescale
from weft.core.events import Data, MembersChanged, Received, Returned, Started, StepFinished
from weft.core.graph import Graph
from weft.core.invariants import Codecs, Invariant, holds
from weft.core.names import PARAMS, WELCOME, Buffer, Carries, NodeId, Result, Role, Slot
from weft.core.peer import Actions, Peer
from weft.core.strategy import Entry, Strategy
from weft.core.world import World
from weft.strategies.parts.local_step import apply_gradient
from weft.strategies.parts.rounds import CROSSING, Rounds, RoundsPeer, again
from weft.topologies import Exponential, Ring, Topology

SHARE = "share"
MASS = "push_sum.mass"
SEEN = "push_sum.seen"
"""`params` as the iteration was given them: what the script writes besides is mass, too."""


@dataclass(frozen=True)
class PushSum(Strategy):
    """SGP (Assran et al., ICML 2019, algorithm 1).

    A worker keeps a mass x and a weight; `params` is z = x / weight, where the gradient is taken.
    x moves by what the optimizer moved z; then equal shares of x and of the weight are pushed to the
    targets of this round, and the shares of all sources of this round are awaited.

    A share that comes early is added at once: sums do not mind the order, and the total mass (live
    and in flight) stays N under any delay. BatchNorm's means stay the worker's own.

    A worker that leaves takes its mass with it, and what it had sent and nobody received. A share that did not reach
    it goes back to its sender; one that did not reach a worker who stays is sent again.
    A newcomer takes over the parameters of the lowest other worker and an equal share of its mass and weight, which
    that worker gives away: no mass is made.
    """

    entry = Entry(
        "push_sum",
        "SGP (Assran et al. 2019)",
        "averaging over directed graphs, de-biased by a travelling weight",
    )

    topology: Topology = field(default_factory=lambda: Exponential(one_peer=True))

    @property
    def result(self) -> Result:
        return Result.MEAN

    @property
    def welcomes(self) -> bool:
        return True

    def graph(self, num_workers: int) -> Graph:
        return self.topology.graph(num_workers)

    def slots(self, role: Role, world: World) -> tuple[Slot, ...]:
        return (Slot(MASS), Slot(SEEN))

    def kinds(self) -> Mapping[str, Carries]:
        return {SHARE: Carries.EXACT, **CROSSING}

    def invariants(self, world: World) -> tuple[Invariant, ...]:
        return (
            holds("conservation.ground_is_kept"),
            holds("lineage.newcomers_are_copies", Codecs.ANY),
            holds("conservation.total_is_conserved", slot=MASS, in_flight={SHARE: 1.0}, is_given_away=True),
        )

    @classmethod
    def example_parameters(cls, rng: Random) -> Mapping[str, object]:
        return {"topology": rng.choice((Ring(), Exponential(), Exponential(one_peer=True)))}

    def peer(self, me: NodeId, world: World, rng: Random) -> Peer:
        return PushSumPeer(self.topology, me, world, rng)


class PushSumPeer(RoundsPeer):
    """Holds mass and weight for each bucket; waits for the shares of its step."""

    _inherits = (PARAMS, MASS)

    def __init__(self, topology: Topology, me: NodeId, world: World, rng: Random) -> None:
        super().__init__(me, world, rng)
        self.rounds = Rounds(me, world, topology)
        self.weight = dict.fromkeys(world.trainable, 1.0)
        self.arrived: dict[int, list[NodeId]] = {}
        """Who sent the shares of each clock that have come, once for each bucket."""
        self.mixing = False

    def on_started(self, event: Started) -> Actions:
        params = self.world.params
        return [*(copy(Buffer(slot, b), params[b]) for b in self.weight for slot in (MASS, SEEN)), Compute(0)]

    def on_joined(self, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        """Who welcomes newcomers keeps as much of its mass as each of them gets. At rest all shares of those who stay
        have been counted: any that are noted are of one who was ahead and left, and not of one who comes now."""
        self.arrived.clear()
        actions: Actions = []
        if self.me == self.sponsor_of(newcomers) and not self._is_new:
            actions = self._keep_only(1.0 / (len(newcomers) + 1))
        return [*actions, *super().on_joined(event, newcomers)]

    def _keep_only(self, share: float) -> Actions:
        """Divide mass and weight; the other shares are sent."""
        self.weight = {b: share * weight for b, weight in self.weight.items()}
        return [rescale(Buffer(MASS, b), share) for b in self.weight]

    def welcome(self, newcomer: NodeId) -> Actions:
        """Mass is sent with its weight, as in every share."""
        return [
            replace(action, weight=self.weight[action.bucket])
            if isinstance(action, Send) and self._is_mass(action)
            else action
            for action in super().welcome(newcomer)
        ]

    def _is_mass(self, message: Send | Received | Returned) -> bool:
        """It gives mass to a newcomer; buckets that are not trained have none."""
        return message.kind == WELCOME and message.data == {"slot": MASS} and message.bucket in self.weight

    def _be_welcomed(self, event: Received) -> Actions:
        if self._is_mass(event):
            self.weight[event.bucket] = event.weight
        return super()._be_welcomed(event)

    def take_over(self, handed: Data) -> Actions:
        seen = [copy(Buffer(SEEN, b), self.world.params[b]) for b in self.weight]
        return [*seen, *super().take_over(handed)]

    def on_step_finished(self, event: StepFinished) -> Actions:
        self.step = event.step + 1
        self.mixing = True
        self.rounds.is_due = True
        actions: Actions = [add(Buffer(MASS, b), Buffer(SEEN, b), -1.0) for b in self.weight]
        actions += apply_gradient(self.world, event.samples)
        actions += [add(Buffer(MASS, b), self.world.params[b]) for b in self.weight]
        return [*actions, *self._push_if_due(), *self._go_on_if_complete()]

    def _push_if_due(self) -> Actions:
        """Divide mass and weight among the targets of the round and oneself."""
        if not self.rounds.begin():
            return []
        actions: Actions = []
        clock = self.rounds.next - 1
        targets = self.rounds.targets(clock)
        share = 1.0 / (len(targets) + 1)
        for b in self.weight:
            mass = Buffer(MASS, b)
            self.weight[b] *= share
            actions.append(rescale(mass, share))
            actions += [Send(target, SHARE, clock, b, mass, self.weight[b]) for target in targets]
        return actions

    def on_received(self, event: Received) -> Actions:
        if event.kind in CROSSING:
            return [*self.rounds.on_received(event), *self._push_if_due(), *self._go_on_if_complete()]
        if event.kind != SHARE or event.body is None:
            raise self.unexpected(event)
        self.arrived.setdefault(event.clock, []).append(event.source)
        actions = self._take(event.bucket, event.body, event.weight)
        return actions + self._go_on_if_complete() if self.mixing else actions

    def on_members_changed(self, event: MembersChanged) -> Actions:
        crossing = self.rounds.on_members_changed(event.view, self.workers)
        return [*crossing, *self._push_if_due(), *self._go_on_if_complete()]

    def on_returned(self, event: Returned) -> Actions:
        """A share for one who has left goes back to the own mass; one for a worker who stays is on its way again.

        So does what was for a newcomer, which leaves with the change of members that overtakes its welcome.
        """
        if event.kind != SHARE and not self._is_mass(event):
            return super().on_returned(event)
        if event.target in self.members:
            return [again(event)]
        assert event.body is not None
        return self._take(event.bucket, event.body, event.weight)

    def _take(self, bucket: int, body: Buffer, weight: float) -> Actions:
        self.weight[bucket] += weight
        return [add(Buffer(MASS, bucket), body)]

    def _go_on_if_complete(self) -> Actions:
        clock = self.step - 1
        if not self.mixing or self.rounds.is_due or self._late():
            return []
        self.mixing = False
        self.arrived.pop(clock, None)
        actions: Actions = []
        for b, weight in self.weight.items():
            actions.append(Combine(self.world.params[b], 0.0, Buffer(MASS, b), 1.0 / weight))
            actions.append(copy(Buffer(SEEN, b), self.world.params[b]))
        return [*actions, *self.rounds.end(), Compute(self.step)]

    def _late(self) -> list[NodeId]:
        """Whose shares of the round under way are missing."""
        arrived, num_buckets = self.arrived.get(self.step - 1, []), len(self.weight)
        return [node for node in self.rounds.sources(self.step - 1) if arrived.count(node) < num_buckets]

    def waiting_for(self) -> str:
        if not self.mixing:
            return super().waiting_for()
        if self.rounds.is_due:
            return self.rounds.waiting_for()
        return f"the shares of step {self.step - 1} from worker {', '.join(map(str, self._late()))}"
