"""Hosts that sum before others hear of it, as one worker speaks: facts to commands."""

from random import Random
from typing import Any

import pytest
from support.simulated.reducers import ReduceOnce

from weft.collectives.host_sums import DOWN, SUM, UP, HostSums, came
from weft.core.actions import MAX, MEAN, Apply, Combine, Compute, Reduce, Send
from weft.core.errors import IllegalAction
from weft.core.events import GradientReady, Received, Reduced, Started, StepFinished
from weft.core.names import Buffer, Carries, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import AllReduce, StaleSync
from weft.testing.peers import G0, IN0, ONE, P0, TWO, WITH_STATE, bodiless, is_plain, members, received, refusal, tell

SUMMED = HostSums(AllReduce(), ("gradient",))
HOSTS = (0, 1, 0, 1, 0, 2)
"""Workers 0, 2 and 4 are on one host, 1 and 3 on another, 5 is alone."""
FIRSTS = (0, 1, 5)
SUM0 = Buffer(SUM, 0)
UP0, DOWN0 = f"{UP}gradient", f"{DOWN}gradient"


def peer_at(me: int, recipe: HostSums = SUMMED, buckets: Any = ONE) -> Any:
    return recipe.peer(me, World(Roles(len(HOSTS)), buckets, None, HOSTS), Random(0))


def came0(number: int) -> Buffer:
    return Buffer(came(number), 0)


def test_a_worker_gives_its_contribution_to_the_first_of_its_host_and_awaits_the_result() -> None:
    peer = peer_at(4)
    assert tell(peer, Started(0)) == [Compute(0)]
    assert tell(peer, GradientReady(0, 0, 3.0)) == [Send(0, UP0, 0, 0, G0, 3.0)]
    assert peer.holds_user
    assert peer.waiting_for() == "worker 0 to hand on the reduction of 'gradient' (step 0, bucket 0)"
    assert tell(peer, received(0, DOWN0, weight=9.0)) == [Combine(G0, 0.0, IN0)]
    assert not peer.holds_user
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_the_first_reduces_the_mean_of_its_host_with_those_of_other_hosts_and_hands_it_on() -> None:
    peer = peer_at(0)
    assert tell(peer, GradientReady(0, 0, 2.0)) == []
    assert peer.waiting_for() == "worker 2, worker 4 in the sum of the host of 'gradient' (step 0, bucket 0)"
    assert tell(peer, received(4, UP0, weight=5.0)) == [Combine(came0(2), 0.0, IN0)]
    assert tell(peer, received(2, UP0, weight=1.0)) == [
        Combine(came0(1), 0.0, IN0),
        Combine(SUM0, 0.0, G0, 2 / 8),
        Combine(SUM0, 1.0, came0(1), 1 / 8),
        Combine(SUM0, 1.0, came0(2), 5 / 8),
        Reduce(FIRSTS, "gradient", 0, SUM0, MEAN, 8.0),
    ]
    assert tell(peer, Reduced(0, SUM0, 20.0)) == [
        Combine(G0, 0.0, SUM0),
        Send(2, DOWN0, 0, 0, G0, 20.0),
        Send(4, DOWN0, 0, 0, G0, 20.0),
    ]
    assert not peer.holds_user


def test_who_gives_before_the_first_has_its_own_waits_in_memory_for_it() -> None:
    peer = peer_at(1)
    assert tell(peer, received(3, UP0, weight=1.0)) == [Combine(came0(1), 0.0, IN0)]
    assert tell(peer, GradientReady(0, 0, 1.0)) == [
        Combine(SUM0, 0.0, G0, 0.5),
        Combine(SUM0, 1.0, came0(1), 0.5),
        Reduce(FIRSTS, "gradient", 0, SUM0, MEAN, 2.0),
    ]


def test_a_worker_that_is_alone_on_its_host_reduces_what_it_has_where_it_lies() -> None:
    peer = peer_at(5)
    assert tell(peer, GradientReady(0, 0, 3.0)) == [Reduce(FIRSTS, "gradient", 0, G0, MEAN, 3.0)]
    assert tell(peer, Reduced(0, G0, 9.0)) == []
    assert tell(peer, StepFinished(0, 3.0, None)) == [Apply(G0, P0), Compute(1)]


def test_contributions_of_no_weight_are_left_out_and_have_no_bodies() -> None:
    assert tell(peer_at(2), GradientReady(0, 0, 0.0)) == [Send(0, UP0, 0, 0, None, 0.0)]
    first = peer_at(1)
    nothing = Received(3, UP0, 0, 0, None, 0.0, None)
    tell(first, GradientReady(0, 0, 2.0))
    assert tell(first, nothing) == [
        Combine(SUM0, 0.0, G0, 1.0),
        Reduce(FIRSTS, "gradient", 0, SUM0, MEAN, 2.0),
    ]
    empty = peer_at(1)
    tell(empty, GradientReady(0, 0, 0.0))
    assert tell(empty, nothing) == [Reduce(FIRSTS, "gradient", 0, SUM0, MEAN, 0.0)]


def test_if_nobody_has_samples_the_own_values_stay_on_all() -> None:
    first, other = peer_at(1), peer_at(3)
    tell(first, GradientReady(0, 0, 0.0), Received(3, UP0, 0, 0, None, 0.0, None))
    assert tell(first, Reduced(0, SUM0, 0.0)) == [Send(3, DOWN0, 0, 0, None, 0.0)]
    tell(other, GradientReady(0, 0, 0.0))
    assert tell(other, Received(1, DOWN0, 0, 0, None, 0.0, None)) == []
    assert tell(other, StepFinished(0, 0.0, None)) == [Compute(1)]


def test_a_maximum_and_other_kinds_are_of_all_workers() -> None:
    most = peer_at(2, HostSums(ReduceOnce(MAX), ("all",)))
    everyone = tuple(range(len(HOSTS)))
    assert tell(most, StepFinished(0, 3.0, None)) == [Reduce(everyone, "all", 0, P0, MAX, 3.0)]
    other = peer_at(0, buckets=WITH_STATE)
    assert tell(other, GradientReady(0, 0, 1.0)) == [
        Reduce(everyone, "state", 0, Buffer("params", 1), MEAN, 1.0),
    ]
    assert tell(other, Reduced(0, Buffer("params", 1), 6.0)) == []
    assert other.waiting_for().startswith("worker 2, worker 4 in the sum of the host")


def test_buckets_are_summed_side_by_side_and_the_snapshot_is_plain() -> None:
    peer = peer_at(1, buckets=TWO)
    tell(peer, GradientReady(0, 1, 1.0), received(3, UP0, bucket=1), received(3, UP0))
    assert is_plain(peer)
    assert tell(peer, GradientReady(0, 0, 1.0))[-1] == Reduce(FIRSTS, "gradient", 0, SUM0, MEAN, 2.0)
    assert tell(peer, Reduced(0, Buffer(SUM, 1), 6.0))[-1] == Send(3, DOWN0, 0, 1, Buffer("gradient", 1), 6.0)


def test_a_run_that_goes_on_without_its_lost_workers_is_refused() -> None:
    with pytest.raises(IllegalAction, match="hosts sum first, and a sum dies with its worker"):
        tell(peer_at(0), members(0, 1, 2))


def test_what_is_no_part_of_it_is_the_inner_strategys() -> None:
    assert refusal(peer_at(0), bodiless(1, "other")).startswith("worker 0 received 'other'")


def test_it_declares_a_sum_a_place_for_each_other_worker_of_a_host_and_exact_messages() -> None:
    world = World(Roles(len(HOSTS)), ONE, None, HOSTS)
    assert SUMMED.slots(Role.WORKER, world)[-3:] == (Slot(SUM), Slot(came(1)), Slot(came(2)))
    assert SUMMED.kinds() == {**AllReduce().kinds(), UP0: Carries.EXACT, DOWN0: Carries.EXACT}
    served = HostSums(StaleSync(), ("push",))
    with_server = World(Roles(2, 1), ONE, None, (0, 0, 0))
    assert served.slots(Role.SERVER, with_server) == StaleSync().slots(Role.SERVER, with_server)
