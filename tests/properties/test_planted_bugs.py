"""Bugs that were made on purpose are caught: each by the invariant that it breaks, within 200 seeds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from weft.collectives.coded_messages import CodedMessagesPeer
from weft.collectives.phased import PhasedPeer
from weft.collectives.speaking import SpeakingPeer
from weft.collectives.two_way import REST, TwoWayPeer
from weft.collectives.wrapping import WrappingPeer
from weft.core.actions import Action, Apply, Combine, Compute, Reduce, add, rescale
from weft.core.events import Received, Returned, StepFinished
from weft.core.names import PARAMS, Buffer
from weft.core.peer import Actions, Peer
from weft.core.rules import Momentum, Rule
from weft.core.world import World
from weft.fuzz.auditor import audit
from weft.fuzz.campaign import judge
from weft.fuzz.run import run
from weft.fuzz.scenario import draw
from weft.sim.faults.delivery import ViewDelivery
from weft.sim.faults.in_flight import MessageInFlight
from weft.sim.faults.rest import Rest
from weft.store.gate import Gate
from weft.strategies.allreduce import AllReducePeer
from weft.strategies.async_gossip import ANSWER, AsyncGossipPeer
from weft.strategies.downpour import DownpourWorker
from weft.strategies.local_sgd import LocalSGD
from weft.strategies.parts.atomic_steps import AtomicStepServer
from weft.strategies.parts.coordinator import Coordinator, Dealing
from weft.strategies.parts.neighbour_sum import NeighbourSum
from weft.strategies.parts.outer_optimizer import START, OuterPeer, OuterStrategy
from weft.strategies.parts.periodic_average import PeriodicAveragePeer
from weft.strategies.parts.shards import ShardWorker
from weft.strategies.push_sum import PushSumPeer
from weft.strategies.quorum import QuorumServer
from weft.strategies.ssp import ServerBucket, StaleSyncServer

pytestmark = pytest.mark.slow

SEEDS_MAX = 200
ONE_PEER = "exponential(one_peer=True)"

WorkerRuntime = Callable[[pytest.MonkeyPatch], None]


def waits_for_the_departed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServerBucket, "keep", lambda self, workers: self.parked.clear())


def never_asks_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AllReducePeer, "on_members_changed", lambda self, event: [])


def never_sends_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peer, "on_returned", lambda self, event: [])


def hears_second_comings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ViewDelivery, "_is_second_coming", lambda self, node, message: False)


def applies_repeated_pushes(patch: pytest.MonkeyPatch) -> None:
    right = StaleSyncServer.on_push

    def wrong(self: StaleSyncServer, event: Received) -> Actions:
        pushed = self.shards[event.bucket].pushed
        pushed[event.source] = min(pushed[event.source], event.clock)
        return right(self, event)

    patch.setattr(StaleSyncServer, "on_push", wrong)


def lets_what_is_not_a_number_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "weigh", lambda self, step, bucket, samples: samples)
    patch.setattr(Gate, "finish", lambda self, step, samples, loss: (samples, loss))


def divides_by_all_workers(patch: pytest.MonkeyPatch) -> None:
    right = AtomicStepServer.mean

    def wrong(self: AtomicStepServer, members: list[int]) -> Actions:
        share = len(members) / self.world.num_workers
        return [
            rescale(action.into, action.keep * share) if isinstance(action, Combine) else action
            for action in right(self, members)
        ]

    patch.setattr(AtomicStepServer, "mean", wrong)


def lets_workers_lead_by_one_more(patch: pytest.MonkeyPatch) -> None:
    right = StaleSyncServer.__init__

    def wrong(self: StaleSyncServer, *args: Any) -> None:
        right(self, *args)
        assert self._staleness is not None
        self._staleness += 1

    patch.setattr(StaleSyncServer, "__init__", wrong)


def misses_one_update(patch: pytest.MonkeyPatch) -> None:
    right = AllReducePeer.on_step_finished

    def wrong(self: AllReducePeer, event: StepFinished) -> Actions:
        actions = right(self, event)
        if (self.me, event.step) == (1, 7):
            return [action for action in actions if not isinstance(action, Apply)]
        return actions

    patch.setattr(AllReducePeer, "on_step_finished", wrong)


def adds_to_what_it_was_answered(patch: pytest.MonkeyPatch) -> None:
    right = ShardWorker.on_received

    def wrong(self: ShardWorker, event: Received) -> Actions:
        *actions, last = right(self, event)
        if not isinstance(last, Compute):
            return [*actions, last]
        return [*actions, add(self.world.params[0], self.world.gradient[0], 0.5), last]

    patch.setattr(ShardWorker, "on_received", wrong)


def subtracts_half_of_what_the_other_took(patch: pytest.MonkeyPatch) -> None:
    right = AsyncGossipPeer.on_received

    def wrong(self: AsyncGossipPeer, event: Received) -> Actions:
        actions = right(self, event)
        if event.kind == ANSWER and event.body is not None:
            return [add(self.world.params[event.bucket], event.body, -0.5)]
        return actions

    patch.setattr(AsyncGossipPeer, "on_received", wrong)


def loses_shares_of_the_departed(patch: pytest.MonkeyPatch) -> None:
    right = PushSumPeer.on_returned

    def wrong(self: PushSumPeer, event: Returned) -> Actions:
        return right(self, event) if event.target in self.members else []

    patch.setattr(PushSumPeer, "on_returned", wrong)


def forgets_the_weight_of_the_departed(patch: pytest.MonkeyPatch) -> None:
    right = NeighbourSum.forget

    def wrong(self: NeighbourSum, departed: Any) -> Actions:
        right(self, departed)
        return []

    patch.setattr(NeighbourSum, "forget", wrong)


def keeps_what_it_pushed(patch: pytest.MonkeyPatch) -> None:
    right = DownpourWorker.on_step_finished

    def wrong(self: DownpourWorker, event: StepFinished) -> Actions:
        return [action for action in right(self, event) if not (isinstance(action, Combine) and action.keep == 0.0)]

    patch.setattr(DownpourWorker, "on_step_finished", wrong)


def hears_who_is_out(patch: pytest.MonkeyPatch) -> None:
    right = ViewDelivery._arrive

    def wrong(self: ViewDelivery, message: MessageInFlight) -> None:
        message.view = max(message.view, self._liveness.node(message.target).view)
        right(self, message)

    patch.setattr(ViewDelivery, "_arrive", wrong)


def leaves_portions_with_the_departed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dealing, "keep", lambda self, workers: None)


def counts_both_copies_of_a_portion(patch: pytest.MonkeyPatch) -> None:
    right = Coordinator._on_result

    def wrong(self: Coordinator, event: Received, portion: int) -> Actions:
        self.shards[event.bucket].counted.discard(portion)
        return right(self, event, portion)

    patch.setattr(Coordinator, "_on_result", wrong)
    patch.setattr(Dealing, "is_at", lambda self, portion, worker: True)


def encodes_again_what_a_change_of_members_overtook(patch: pytest.MonkeyPatch) -> None:
    right = PhasedPeer.on_action

    def wrong(self: PhasedPeer, action: Action) -> Actions:
        if isinstance(action, Reduce):
            self.rounds.pop((action.kind, action.buffer.bucket), None)
        return right(self, action)

    patch.setattr(PhasedPeer, "on_action", wrong)


def forgets_pushes_that_nobody_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CodedMessagesPeer, "_is_unheard", lambda self, pushed, clock: False)


def says_again_what_only_some_did_not_hear(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CodedMessagesPeer, "_is_unheard", lambda self, pushed, clock: True)


def forgets_the_rest_of_its_part(patch: pytest.MonkeyPatch) -> None:
    right = TwoWayPeer._take_back

    def wrong(self: TwoWayPeer, reduce: Reduce) -> Actions:
        actions = right(self, reduce)
        return [a for a in actions if not (isinstance(a, Combine) and a.add == Buffer(REST, reduce.buffer.bucket))]

    patch.setattr(TwoWayPeer, "_take_back", wrong)


def averages_by_count(patch: pytest.MonkeyPatch) -> None:
    right = PeriodicAveragePeer.average

    def wrong(self: PeriodicAveragePeer, clock: int) -> Actions:
        self.samples = float(self.samples > 0.0)
        return right(self, clock)

    patch.setattr(PeriodicAveragePeer, "average", wrong)


def turns_the_outer_momentum_round(patch: pytest.MonkeyPatch) -> None:
    right = OuterStrategy.rules

    def wrong(self: OuterStrategy, world: World) -> Mapping[str, Rule]:
        rules = right(self, world)
        for rule in rules.values():
            assert isinstance(rule, Momentum)
            rule.momentum = -rule.momentum
        return rules

    patch.setattr(OuterStrategy, "rules", wrong)


def takes_gradients_that_are_one_step_late(patch: pytest.MonkeyPatch) -> None:
    right = QuorumServer.on_push

    def wrong(self: QuorumServer, event: Received) -> Actions:
        is_late = self.floor <= event.clock == self.clock - 1
        return right(self, replace(event, clock=self.clock) if is_late else event)

    patch.setattr(QuorumServer, "on_push", wrong)


def takes_parts_of_steps_for_whole_ones(patch: pytest.MonkeyPatch) -> None:
    right = StaleSyncServer.regroup

    def wrong(self: StaleSyncServer) -> Actions:
        for shard in self.shards.values():
            shard.known_from = 0
        return right(self)

    patch.setattr(StaleSyncServer, "regroup", wrong)


def keeps_its_own_parameters(patch: pytest.MonkeyPatch) -> None:
    right = Peer._be_welcomed

    def wrong(self: Peer, event: Received) -> Actions:
        return [action for action in right(self, event) if not isinstance(action, Combine)]

    patch.setattr(Peer, "_be_welcomed", wrong)


def begins_with_the_first_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AllReducePeer, "take_over", Peer.take_over)


def goes_on_counting_reductions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SpeakingPeer, "on_joined", WrappingPeer.on_joined)


def comes_without_velocity(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OuterPeer, "_inherits", (PARAMS, START))


def sets_out_from_where_its_sponsor_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OuterPeer, "take_over", Peer.take_over)


def comes_in_the_midst_of_a_period(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalSGD, "rest_period", 1)


def comes_while_others_train(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rest, "_is_at_rest", lambda self: True)


BUGS: list[tuple[int, str, WorkerRuntime]] = [
    (1, "ssp", waits_for_the_departed),
    (1, "allreduce", never_asks_again),
    (1, "ps", never_sends_again),
    (1, "sandblaster(backups=False)", leaves_portions_with_the_departed),
    (2, "downpour", hears_second_comings),
    (2, "ssp", applies_repeated_pushes),
    (2, "allreduce", lets_what_is_not_a_number_in),
    (2, "ps", divides_by_all_workers),
    (2, "local_sgd", averages_by_count),
    (2, "diloco", turns_the_outer_momentum_round),
    (2, "bmuf", turns_the_outer_momentum_round),
    (2, "slowmo", turns_the_outer_momentum_round),
    (2, "ssp(staleness=4)", takes_parts_of_steps_for_whole_ones),
    (3, "ssp", lets_workers_lead_by_one_more),
    (3, "quorum(late=drop)", takes_gradients_that_are_one_step_late),
    (3, "quorum(late=carry)", takes_gradients_that_are_one_step_late),
    (4, "allreduce", misses_one_update),
    (4, "ssp", adds_to_what_it_was_answered),
    (5, "async_gossip", subtracts_half_of_what_the_other_took),
    (5, "push_sum", loses_shares_of_the_departed),
    (5, "gossip", forgets_the_weight_of_the_departed),
    (6, "downpour", keeps_what_it_pushed),
    (7, "async_gossip", hears_who_is_out),
    (9, "sandblaster", counts_both_copies_of_a_portion),
]

JOINING_BUGS: list[tuple[int, str, WorkerRuntime]] = [
    (4, "allreduce", keeps_its_own_parameters),
    (1, "allreduce", begins_with_the_first_round),
    (1, "allreduce", goes_on_counting_reductions),
    (1, "allreduce", comes_while_others_train),
    (2, "local_sgd(period=4)", comes_in_the_midst_of_a_period),
    (4, "diloco(period=2)", comes_without_velocity),
    (2, "diloco(period=4)", sets_out_from_where_its_sponsor_is),
]
"""About newcomers."""

FIRST_SEEDS: dict[WorkerRuntime, int] = {never_sends_again: 26, hears_who_is_out: 37, hears_second_comings: 68}
"""Bugs that few seeds catch, and the first that does; it is tried before all others."""


def _name(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("invariant", "strategy", "plant"), BUGS + JOINING_BUGS, ids=_name)
def test_a_planted_bug_is_caught(
    invariant: int, strategy: str, plant: WorkerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert invariant in _found(strategy, invariant, FIRST_SEEDS.get(plant, 0))


CODED_BUGS: list[tuple[str, str, str | None, WorkerRuntime]] = [
    ("allreduce", "randomk(0.3)", "gather", encodes_again_what_a_change_of_members_overtook),
    (f"neighbours(topology={ONE_PEER}, wait=any)", "topk(0.002)", None, forgets_pushes_that_nobody_heard),
    ("neighbours(topology=ring, wait=any, elect=none)", "topk(0.002)", None, says_again_what_only_some_did_not_hear),
    ("allreduce", "onebit", "two_way", forgets_the_rest_of_its_part),
]
"""About residuals: all break invariant 6."""


@pytest.mark.parametrize(("strategy", "compress", "scheme", "plant"), CODED_BUGS, ids=_name)
def test_a_planted_bug_about_residuals_is_caught(
    strategy: str, compress: str, scheme: str | None, plant: WorkerRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    coding: dict[str, Any] = {"compress": compress, "scheme": scheme, "collective": None if scheme is None else "ring"}
    audits = (audit(run(replace(draw(seed, (strategy,)), **coding))) for seed in range(SEEDS_MAX))
    assert any(violation.invariant == 6 for found in audits for violation in found)


def _found(strategy: str, wanted: int, first: int) -> set[int]:
    """The invariants that seeds break, one after another, until the wanted one is among them."""
    found: set[int] = set()
    for seed in (first, *range(SEEDS_MAX)):
        found |= {violation.invariant for violation in judge(seed, (strategy,)).violations}
        if wanted in found:
            break
    return found
