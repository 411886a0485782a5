"""Bugs that were made on purpose in how gossip and its kin take newcomers in are caught, within 200 seeds."""

from collections.abc import Callable
from typing import Any

import pytest

from weft.core.actions import add
from weft.core.events import Data, MembersChanged, Received
from weft.core.names import NodeId
from weft.core.peer import Actions, Peer
from weft.fuzz.campaign import judge
from weft.strategies.async_gossip import AsyncGossipPeer
from weft.strategies.gossip import GossipPeer
from weft.strategies.parts.arrivals import Arrivals
from weft.strategies.parts.live_graph import Nodes
from weft.strategies.parts.rounds import Rounds
from weft.strategies.parts.tournament import TournamentPeer
from weft.strategies.push_sum import PushSumPeer

pytestmark = pytest.mark.slow

SEEDS_MAX = 200

Plant = Callable[[pytest.MonkeyPatch], None]


def gives_newcomers_a_copy_of_its_mass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PushSumPeer, "_keep_only", lambda self, share: [])


def forgets_the_weight_of_the_mass_it_was_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PushSumPeer, "_be_welcomed", Peer._be_welcomed)


def trains_from_its_own_first_parameters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GossipPeer, "_inherits", ())


def adds_what_it_was_given_to_what_it_has(patch: pytest.MonkeyPatch) -> None:
    right = AsyncGossipPeer._be_welcomed

    def wrong(self: AsyncGossipPeer, event: Received) -> Actions:
        actions = right(self, event)
        return actions if event.body is None else [add(self.world.params[event.bucket], event.body), *actions[1:]]

    patch.setattr(AsyncGossipPeer, "_be_welcomed", wrong)


def mixes_in_the_round_under_way(patch: pytest.MonkeyPatch) -> None:
    right = Rounds.take_over

    def wrong(self: Rounds, next: int, first: int, view: int, workers: Nodes) -> None:
        right(self, next, next, view, workers)

    patch.setattr(Rounds, "take_over", wrong)


def takes_newcomers_for_departed(patch: pytest.MonkeyPatch) -> None:
    right = Rounds.on_joined

    def wrong(self: Rounds, view: int, workers: Nodes) -> None:
        departed = set(self.departed)
        right(self, view, workers)
        self.departed = departed

    patch.setattr(Rounds, "on_joined", wrong)


def knows_the_first_graph_only(patch: pytest.MonkeyPatch) -> None:
    right = Rounds.take_over

    def wrong(self: Rounds, next: int, first: int, view: int, workers: Nodes) -> None:
        right(self, next, first, view, workers)
        self._graphs[view] = self._first

    patch.setattr(Rounds, "take_over", wrong)


def waits_for_scores_of_those_who_have_just_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Arrivals, "are_compared", lambda self, workers, step: workers)


def begins_before_the_first_step_of_the_run(patch: pytest.MonkeyPatch) -> None:
    right = TournamentPeer.take_over

    def wrong(self: TournamentPeer, handed: Data) -> Actions:
        return right(self, {**handed, "step": 0})

    patch.setattr(TournamentPeer, "take_over", wrong)


def is_welcomed_by_the_lowest_rather_than_the_best(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TournamentPeer, "welcome", Peer.welcome)


def gives_newcomers_only_one_bucket(patch: pytest.MonkeyPatch) -> None:
    right = TournamentPeer._be_welcomed

    def wrong(self: TournamentPeer, event: Received) -> Actions:
        actions = right(self, event)
        return actions if event.body is None or event.bucket == 0 else actions[1:]

    patch.setattr(TournamentPeer, "_be_welcomed", wrong)


def has_every_worker_welcome_newcomers(patch: pytest.MonkeyPatch) -> None:
    right = AsyncGossipPeer.on_joined

    def wrong(self: AsyncGossipPeer, event: MembersChanged, newcomers: tuple[NodeId, ...]) -> Actions:
        patch.setattr(AsyncGossipPeer, "sponsor", lambda self, newcomers: self.me)
        return right(self, event, newcomers)

    patch.setattr(AsyncGossipPeer, "on_joined", wrong)


BUGS: list[tuple[int, str, Plant]] = [
    (5, "push_sum", gives_newcomers_a_copy_of_its_mass),
    (5, "push_sum", forgets_the_weight_of_the_mass_it_was_given),
    (5, "gossip", trains_from_its_own_first_parameters),
    (5, "async_gossip", adds_what_it_was_given_to_what_it_has),
    (1, "gossip(topology=ring)", mixes_in_the_round_under_way),
    (1, "gossip_grad", takes_newcomers_for_departed),
    (1, "gossip", knows_the_first_graph_only),
    (1, "neighbours", waits_for_scores_of_those_who_have_just_come),
    (1, "population", waits_for_scores_of_those_who_have_just_come),
    (1, "population", begins_before_the_first_step_of_the_run),
    (4, "population", is_welcomed_by_the_lowest_rather_than_the_best),
    (4, "population", gives_newcomers_only_one_bucket),
    (1, "async_gossip", has_every_worker_welcome_newcomers),
]

FIRST_SEEDS: dict[tuple[str, Plant], int] = {("neighbours", waits_for_scores_of_those_who_have_just_come): 28}
"""Bugs that few seeds catch, and the first that does; it is tried before all others."""


@pytest.mark.parametrize(("invariant", "strategy", "plant"), BUGS, ids=lambda value: getattr(value, "__name__", None))
def test_a_planted_bug_is_caught(invariant: int, strategy: str, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found: set[Any] = set()
    for seed in (FIRST_SEEDS.get((strategy, plant), 0), *range(SEEDS_MAX)):
        found |= {violation.invariant for violation in judge(seed, (strategy,)).violations}
        if invariant in found:
            break
    assert invariant in found
