"""GossipGraD: facts to commands, and who is whose partner when."""

import pytest
from support.peers.newcomers import given, handed, newcomer

from weft.core.actions import Apply, Combine, Compute, Send
from weft.core.errors import ConfigError
from weft.core.events import Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Slot
from weft.core.world import World
from weft.strategies import GossipGrad
from weft.testing.peers import G0, IN0, ONE, P0, WITH_STATE, is_plain, peer_of, received, refusal, tell

CUBE = GossipGrad(schedule="hypercube")
M0, M1 = Buffer("mix.0", 0), Buffer("mix.1", 0)


def test_a_worker_computes_at_once() -> None:
    assert tell(peer_of(GossipGrad()), Started(0)) == [Compute(0)]


def test_it_applies_its_own_gradient_and_sends_its_parameters_to_one_partner() -> None:
    peer = peer_of(GossipGrad(), num_workers=5)
    assert tell(peer, Started(0), StepFinished(0, 3.0, None)) == [
        Apply(G0, P0),
        Combine(M0, 0.0, P0, 0.5),
        Send(1, "mix", 0, 0, P0, 3.0),
    ]
    assert peer.waiting_for() == "the parameters of step 0 from worker 4"


def test_it_takes_the_mean_of_its_own_and_the_received_parameters() -> None:
    peer = peer_of(GossipGrad(), num_workers=5)
    tell(peer, Started(0), StepFinished(0, 3.0, None))
    assert tell(peer, received(4, "mix", 0, weight=7.0)) == [
        Combine(M0, 1.0, IN0, 0.5),
        Combine(P0, 0.0, M0),
        Compute(1),
    ]


def test_two_workers_count_alike_whatever_their_samples() -> None:
    peer = peer_of(GossipGrad(), num_workers=2)
    tell(peer, Started(0), StepFinished(0, 3.0, None))
    assert tell(peer, received(1, "mix", 0, weight=7.0))[0] == Combine(M0, 1.0, IN0, 0.5)


def test_one_worker_alone_keeps_its_parameters() -> None:
    peer = peer_of(GossipGrad(), num_workers=1)
    assert tell(peer, Started(0), StepFinished(0, 3.0, None)) == [
        Apply(G0, P0),
        Combine(M0, 0.0, P0, 1.0),
        Combine(P0, 0.0, M0),
        Compute(1),
    ]


def test_dissemination_sends_twice_as_far_in_every_round() -> None:
    graph = GossipGrad().graph(7)
    assert [graph.targets(6, clock) for clock in range(3)] == [(0,), (1,), (3,)]
    assert [graph.sources(6, clock) for clock in range(3)] == [(5,), (4,), (2,)]


def test_a_hypercube_exchanges_with_those_who_differ_in_one_bit() -> None:
    graph = CUBE.graph(8)
    assert graph.is_undirected
    assert [graph.targets(6, clock) for clock in range(3)] == [(7,), (4,), (2,)]


@pytest.mark.parametrize("recipe", [GossipGrad(), CUBE])
def test_partners_are_shuffled_after_every_worker_has_been_heard(recipe: GossipGrad) -> None:
    graph = recipe.graph(16)
    cycles = [[graph.targets(place, clock + k) for place in range(16) for k in range(4)] for clock in range(0, 32, 4)]
    assert len({tuple(cycle) for cycle in cycles}) == 8


def test_the_seed_draws_the_partners_alike_for_all() -> None:
    rounds = GossipGrad(seed=5).graph(9).rounds
    assert rounds == GossipGrad(seed=5).graph(9).rounds
    assert rounds[:4] == GossipGrad(seed=6).graph(9).rounds[:4]
    assert rounds[4:] != GossipGrad(seed=6).graph(9).rounds[4:]


def test_only_trained_buckets_are_mixed() -> None:
    peer = peer_of(GossipGrad(), num_workers=2, buckets=WITH_STATE)
    sent = [action for action in tell(peer, StepFinished(0, 1.0, None)) if isinstance(action, Send)]
    assert [send.bucket for send in sent] == [0]


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        GossipGrad(schedule="ring")
    assert str(caught.value) == (
        "schedule is 'ring', but it is 'dissemination' or 'hypercube'.\n"
        "  Use 'gossip_grad(schedule=dissemination)', which fits any number of workers."
    )


def test_a_hypercube_needs_a_power_of_two() -> None:
    assert CUBE.graph(1).num_places == 1
    with pytest.raises(ConfigError) as caught:
        CUBE.graph(6)
    assert str(caught.value) == (
        "'gossip_grad(schedule=hypercube)' needs a power of two, but there are 6 workers.\n"
        "  Use 4 or 8 workers, or 'gossip_grad(schedule=dissemination)', which fits any number."
    )


def test_other_messages_are_refused() -> None:
    expected = "worker 0 received 'news' (clock 0, bucket 0) from worker 1, which GossipPeer does not expect now."
    assert refusal(peer_of(GossipGrad()), received(1, "news")) == expected


def test_the_snapshot_is_plain() -> None:
    peer = peer_of(GossipGrad())
    tell(peer, Started(0), received(2, "mix", 0))
    assert is_plain(peer)


def test_it_declares_one_sum_for_each_step_that_may_be_under_way() -> None:
    world = World(CUBE.roles(2), ONE, CUBE.graph(2))
    assert CUBE.slots(Role.WORKER, world) == (Slot("mix.0"), Slot("mix.1"))
    assert CUBE.kinds()["mix"] is Carries.STATE
    assert CUBE.result is Result.MEAN


def test_a_newcomer_has_a_partner_from_its_first_step_on() -> None:
    recipe = GossipGrad()
    assert recipe.welcomes
    peer = newcomer(recipe, 1, 0, 1, 3)
    assert tell(peer, given(0, 4), handed(0, step=4, round=4)) == [Compute(4)]
    partner = peer.rounds.targets(4)
    assert partner in ((0,), (3,))
    assert [action.to for action in tell(peer, StepFinished(4, 1.0, None)) if isinstance(action, Send)] == [*partner]
