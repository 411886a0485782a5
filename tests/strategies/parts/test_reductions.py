"""Reductions that outlive a change of members: facts to commands."""

from random import Random

import pytest

from weft.core.actions import MEAN, Reduce
from weft.core.errors import ConfigError
from weft.core.events import MembersChanged, Reduced
from weft.core.names import Roles
from weft.core.world import World
from weft.strategies.parts.reductions import ReducingPeer, check_period
from weft.testing.peers import P0, P1, TWO, tell


def test_what_is_under_way_begins_again_among_the_new_workers_with_the_same_contribution() -> None:
    peer = ReducingPeer(0, World(Roles(3, 1), TWO), Random(0))
    assert peer.reduce("state", 4, P0, 2.0) == Reduce((0, 1, 2), "state", 4, P0, MEAN, 2.0)
    peer.reduce("state", 4, P1, 3.0)
    assert peer.unreduced == 2
    tell(peer, Reduced(4, P0, 6.0))
    assert tell(peer, MembersChanged(1, (0, 2, 3), "lost worker 1")) == [Reduce((0, 2), "state", 4, P1, MEAN, 3.0)]
    assert peer.unreduced == 1


def test_nothing_under_way_is_nothing_to_ask_for() -> None:
    peer = ReducingPeer(0, World(Roles(2), TWO), Random(0))
    assert tell(peer, MembersChanged(1, (0,), "lost worker 1")) == []


def test_a_period_of_no_steps_is_refused() -> None:
    check_period("diloco", 1)
    with pytest.raises(ConfigError) as caught:
        check_period("diloco", 0)
    assert str(caught.value) == (
        "period is 0, but workers average after a whole number of steps.\n"
        "  Use 'diloco(period=1)' to average after every step."
    )
