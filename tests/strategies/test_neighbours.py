"""FAST's exchange of gradients with neighbours: facts to commands."""

from typing import Any

import pytest
from support.peers.newcomers import given, handed, joined, newcomer

from weft.core.actions import Apply, Combine, Compute, Note, Send
from weft.core.errors import ConfigError
from weft.core.events import EpochFinished, Received, Started, StepFinished
from weft.core.names import Buffer, Carries, Result, Role, Slot
from weft.core.world import World
from weft.strategies import Neighbours
from weft.strategies.parts.rounds import CROSSING
from weft.testing.peers import (
    G0,
    IN0,
    IN1,
    ONE,
    P0,
    P1,
    TWO,
    WITH_STATE,
    bodiless,
    is_plain,
    members,
    peer_of,
    received,
    refusal,
    returned,
    tell,
)
from weft.topologies import Complete, Exponential, Ring, Torus

ALL = Neighbours(Ring())
ANY = Neighbours(Ring(), wait="any")


def sum_of(clock: int, bucket: int = 0) -> Buffer:
    return Buffer(f"neighbours.sum.{clock % 2}", bucket)


def news(source: int, clock: int, samples: float = 1.0, bucket: int = 0) -> Received:
    return received(source, "gradient", clock, bucket, samples)


@pytest.mark.parametrize("recipe", [ALL, ANY])
def test_a_worker_computes_at_once(recipe: Neighbours) -> None:
    assert tell(peer_of(recipe), Started(0)) == [Compute(0)]


def test_wait_all_sends_its_gradient_to_its_neighbours_and_waits_for_theirs() -> None:
    peer = peer_of(ALL, num_workers=4)
    assert peer.waiting_for() == "the user's iteration"
    assert tell(peer, StepFinished(0, 6.0, 1.0)) == [
        Send(1, "gradient", 0, 0, G0, 6.0),
        Send(3, "gradient", 0, 0, G0, 6.0),
        Combine(sum_of(0), 0.0, G0, 6.0),
    ]
    assert peer.waiting_for() == "the gradients of step 0 from worker 1, 3"


def test_wait_all_applies_the_mean_by_samples_when_all_are_in() -> None:
    peer = peer_of(ALL, num_workers=3)
    tell(peer, StepFinished(0, 6.0, None))
    assert tell(peer, news(1, 0, 2.0)) == [Combine(sum_of(0), 1.0, IN0, 2.0)]
    assert tell(peer, news(2, 0, 2.0)) == [
        Combine(sum_of(0), 1.0, IN0, 2.0),
        Combine(sum_of(0), 1 / 10),
        Apply(sum_of(0), P0),
        Compute(1),
    ]


def test_wait_all_with_sum_multiplies_the_mean_by_the_number_of_gradients() -> None:
    peer = peer_of(Neighbours(Ring(), scale="sum"), num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), news(1, 0, 2.0))
    assert tell(peer, news(2, 0, 2.0))[-2:] == [Apply(sum_of(0), P0, scale=3.0), Compute(1)]


def test_gradients_of_a_later_step_wait_in_a_sum_of_their_own() -> None:
    peer = peer_of(ALL, num_workers=2)
    assert tell(peer, news(1, 0)) == [Combine(sum_of(0), 0.0, IN0, 1.0)]
    tell(peer, StepFinished(0, 1.0, None))
    assert tell(peer, news(1, 1)) == [Combine(sum_of(1), 0.0, IN0, 1.0)]
    assert tell(peer, StepFinished(1, 1.0, None))[1:] == [
        Combine(sum_of(1), 1.0, G0, 1.0),
        Combine(sum_of(1), 0.5),
        Apply(sum_of(1), P0),
        Compute(2),
    ]


def test_wait_all_applies_all_buckets_together() -> None:
    peer = peer_of(ALL, num_workers=2, buckets=TWO)
    tell(peer, StepFinished(0, 1.0, None), news(1, 0, 3.0))
    assert tell(peer, news(1, 0, 3.0, bucket=1)) == [
        Combine(sum_of(0, 1), 1.0, IN1, 3.0),
        Combine(sum_of(0, 0), 0.25),
        Combine(sum_of(0, 1), 0.25),
        Apply(sum_of(0, 0), P0),
        Apply(sum_of(0, 1), P1),
        Compute(1),
    ]


def test_nobodys_samples_leave_the_parameters_alone() -> None:
    peer = peer_of(ALL, num_workers=1)
    assert tell(peer, StepFinished(0, 0.0, None)) == [
        Combine(sum_of(0), 0.0, G0, 0.0),
        Compute(1),
    ]
    assert tell(peer_of(ANY, num_workers=1), StepFinished(0, 0.0, None)) == [Apply(G0, P0, scale=0.0), Compute(1)]


def test_wait_any_never_waits() -> None:
    peer = peer_of(ANY, num_workers=3)
    assert tell(peer, StepFinished(0, 6.0, None)) == [
        Send(1, "gradient", 0, 0, G0, 6.0),
        Send(2, "gradient", 0, 0, G0, 6.0),
        Apply(G0, P0, scale=1 / 3),
        Compute(1),
    ]
    assert peer.waiting_for() == "the user's iteration"


def test_wait_any_applies_each_gradient_when_it_comes_by_its_share_of_the_samples() -> None:
    peer = peer_of(ANY, num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), StepFinished(1, 6.0, None))
    assert tell(peer, news(1, 0, 2.0)) == [Note("staleness", 2), Apply(IN0, P0, scale=2 / (4 * 3))]
    assert tell(peer, news(2, 5, 1.0)) == [Note("staleness", 0), Apply(IN0, P0, scale=1 / (3 * 3))]


def test_wait_any_with_sum_applies_every_gradient_whole() -> None:
    peer = peer_of(Neighbours(Complete(), wait="any", scale="sum"), num_workers=3)
    assert Apply(G0, P0, scale=1.0) in tell(peer, StepFinished(0, 6.0, None))
    assert tell(peer, news(1, 0, 2.0))[-1] == Apply(IN0, P0, scale=1.0)


def test_wait_any_counts_the_gradients_of_one_step_of_a_dynamic_graph() -> None:
    peer = peer_of(Neighbours(Exponential(one_peer=True), wait="any"), num_workers=8)
    actions = tell(peer, StepFinished(0, 4.0, None))
    assert actions == [Send(1, "gradient", 0, 0, G0, 4.0), Apply(G0, P0, scale=1 / 2), Compute(1)]
    assert tell(peer, news(7, 0, 4.0))[-1] == Apply(IN0, P0, scale=1 / 2)


def test_wait_all_applies_without_those_who_have_left() -> None:
    peer = peer_of(Neighbours(Ring(), scale="sum"), num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), news(1, 0, 2.0))
    assert tell(peer, members(0, 1)) == [Combine(sum_of(0), 1 / 8), Apply(sum_of(0), P0, scale=2.0), Compute(1)]


def test_wait_all_counts_a_gradient_of_the_departed_that_came_in_time() -> None:
    peer = peer_of(ALL, num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), news(2, 0, 2.0), members(0, 1))
    assert peer.waiting_for() == "the gradients of step 0 from worker 1"
    assert tell(peer, news(1, 0, 2.0))[1:] == [Combine(sum_of(0), 1 / 10), Apply(sum_of(0), P0), Compute(1)]


def test_wait_all_tells_over_the_new_graph_as_soon_as_it_holds() -> None:
    peer = peer_of(ALL, me=1, num_workers=4)
    tell(peer, members(0, 1, 3), bodiless(0, "until", 0))
    assert tell(peer, StepFinished(0, 6.0, None)) == []
    assert peer.waiting_for() == "word from worker 0 that the rounds before 0, over the old graph, are over"
    assert tell(peer, bodiless(0, "go", 0)) == [
        Send(0, "gradient", 0, 0, G0, 6.0),
        Send(3, "gradient", 0, 0, G0, 6.0),
        Combine(sum_of(0), 0.0, G0, 6.0),
    ]


def test_wait_any_goes_on_with_those_who_are_left() -> None:
    peer = peer_of(Neighbours(Complete(), wait="any"), num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), news(2, 0, 2.0))
    assert tell(peer, members(0, 1)) == []
    assert tell(peer, StepFinished(1, 6.0, None)) == [
        Send(1, "gradient", 1, 0, G0, 6.0),
        Apply(G0, P0, scale=1 / 2),
        Compute(2),
    ]


@pytest.mark.parametrize("recipe", [ALL, ANY])
def test_a_gradient_that_did_not_arrive_before_a_change_is_sent_again_to_those_who_stay(recipe: Neighbours) -> None:
    peer = peer_of(recipe, num_workers=3)
    tell(peer, StepFinished(0, 6.0, None), members(0, 1))
    assert tell(peer, returned(1, "gradient", 0, weight=6.0)) == [Send(1, "gradient", 0, 0, IN0, 6.0)]
    assert tell(peer, returned(2, "gradient", 0, weight=6.0)) == []
    assert tell(peer, returned(1, "clock", 0)) == []


def test_state_is_the_workers_own() -> None:
    peer = peer_of(ANY, num_workers=2, buckets=WITH_STATE)
    assert tell(peer, StepFinished(0, 1.0, None)) == [
        Send(1, "gradient", 0, 0, G0, 1.0),
        Apply(G0, P0, scale=0.5),
        Compute(1),
    ]


def test_the_user_is_held_while_an_election_is_open() -> None:
    peer = peer_of(ALL, num_workers=2)
    tell(peer, StepFinished(0, 1.0, 0.25), news(1, 0), EpochFinished(0, {}))
    assert peer.holds_user
    assert peer.waiting_for() == "the score of epoch 0 from worker 1"
    tell(peer, received(1, "score", 0, data={"badness": 0.5}))
    assert not peer.holds_user


def test_a_gradient_may_come_during_an_election() -> None:
    peer = peer_of(ANY, num_workers=2)
    tell(peer, StepFinished(0, 1.0, 0.25), EpochFinished(0, {}))
    assert tell(peer, news(1, 0)) == [Note("staleness", 1), Apply(IN0, P0, scale=0.5)]


def test_without_elections_a_report_changes_nothing() -> None:
    peer = peer_of(Neighbours(elect=None))
    assert tell(peer, StepFinished(0, 1.0, 0.5), EpochFinished(0, {"loss": 1.0})) == []
    assert not peer.holds_user


@pytest.mark.parametrize(("recipe", "name"), [(ALL, "WaitAll"), (ANY, "WaitAny")])
def test_other_messages_are_refused(recipe: Neighbours, name: str) -> None:
    expected = f"worker 0 received '{{}}' (clock 0, bucket 0) from worker 1, which {name} does not expect now."
    assert refusal(peer_of(recipe), received(1, "mix")) == expected.format("mix")
    assert refusal(peer_of(recipe), bodiless(1, "gradient")) == expected.format("gradient")


@pytest.mark.parametrize("recipe", [ALL, ANY])
def test_the_snapshot_is_plain(recipe: Neighbours) -> None:
    peer = peer_of(recipe)
    tell(peer, StepFinished(0, 1.0, 0.5), news(1, 0))
    assert peer.snapshot()["step"] == 1
    assert peer.snapshot()["election"]["losses"] == [0.5]
    assert is_plain(peer)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wait": "some"}, "wait is 'some', but it is 'all' or 'any'.\n  Use 'neighbours(wait=all)'."),
        ({"scale": "max"}, "scale is 'max', but it is 'mean' or 'sum'.\n  Use 'neighbours(scale=mean)'."),
        (
            {"elect": 0},
            "elect is 0, but it counts epochs.\n"
            "  Use 'neighbours(elect=1)' to elect after every epoch, or 'neighbours(elect=none)' never to elect.",
        ),
    ],
)
def test_what_it_does_not_know_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Neighbours(**given)
    assert str(caught.value) == message


def test_waiting_for_all_and_elections_need_memory() -> None:
    world = World(ALL.roles(4), ONE, ALL.graph(4))
    sums, best = (Slot("neighbours.sum.0"), Slot("neighbours.sum.1")), (Slot("election.best"),)
    assert ALL.slots(Role.WORKER, world) == (*sums, *best)
    assert ANY.slots(Role.WORKER, world) == best
    assert Neighbours(Ring(), elect=None).slots(Role.WORKER, world) == sums


def test_scores_are_wanted_only_for_elections() -> None:
    assert Neighbours().topology == Torus()
    assert Neighbours().scored
    assert not Neighbours(elect=None).scored
    kinds = {"gradient": Carries.GRADIENT, "score": Carries.NOTHING, "best": Carries.STATE, "want": Carries.NOTHING}
    assert Neighbours().kinds() == {**kinds, **CROSSING}
    assert Neighbours().result is Result.MEAN


def test_a_newcomer_takes_over_where_the_run_is() -> None:
    for recipe, where in ((ALL, {"step": 0, "closed": -1, "round": 0}), (ANY, {"step": 0, "closed": -1})):
        peer = peer_of(recipe, num_workers=2)
        tell(peer, Started(0), members(0))
        params = Send(1, "welcome", 0, 0, P0, data={"slot": "params"})
        assert tell(peer, joined(0, 1)) == [params, Send(1, "welcome", 0, 0, data=where)]


def test_wait_all_has_a_newcomer_wait_for_its_neighbours_among_the_living() -> None:
    peer = newcomer(ALL, 1, 0, 1, 3)
    assert tell(peer, given(0, 4), handed(0, step=4, closed=-1, round=4)) == [Compute(4)]
    assert tell(peer, StepFinished(4, 2.0, None)) == [
        Send(0, "gradient", 4, 0, G0, 2.0),
        Send(3, "gradient", 4, 0, G0, 2.0),
        Combine(sum_of(4), 0.0, G0, 2.0),
    ]


def test_wait_all_does_not_take_a_gradient_of_one_that_left_for_that_of_a_newcomer() -> None:
    peer = peer_of(ALL, num_workers=2)
    tell(peer, Started(0), news(1, 0), members(0), joined(0, 1))
    assert tell(peer, StepFinished(0, 1.0, None)) == [Send(1, "gradient", 0, 0, G0, 1.0), Combine(sum_of(0), 0.0, G0)]
    assert peer.waiting_for() == "the gradients of step 0 from worker 1"


def test_wait_any_tells_newcomers() -> None:
    peer = peer_of(ANY, num_workers=2)
    tell(peer, Started(0), members(0), joined(0, 1))
    assert tell(peer, StepFinished(0, 1.0, None))[0] == Send(1, "gradient", 0, 0, G0, 1.0)
    peer = newcomer(ANY, 1, 0, 1, 3)
    assert tell(peer, given(0, 4), handed(0, step=4, closed=-1)) == [Compute(4)]
    told = tell(peer, StepFinished(4, 1.0, None))
    assert told[:2] == [Send(0, "gradient", 4, 0, G0, 1.0), Send(3, "gradient", 4, 0, G0, 1.0)]
