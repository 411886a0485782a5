"""Asynchronous SGD with delay compensation."""

from support.peers.newcomers import came_again, gives, without

from weft.core.actions import Apply, Combine, Note
from weft.core.names import Buffer, Role, Roles, Slot
from weft.core.world import World
from weft.strategies import AsyncSGD, DelayCompensated
from weft.testing.peers import ONE, P0, peer_of, received, tell


def test_it_is_asgd_that_compensates_unless_told_otherwise() -> None:
    recipe = DelayCompensated()
    assert (recipe.staleness, recipe.late, recipe.compensation) == (None, "compensate", 0.04)
    assert recipe.late_rule == AsyncSGD(late="compensate").late_rule
    assert DelayCompensated(late="damp").late == "damp"


def test_a_server_keeps_a_copy_for_each_worker() -> None:
    slots = DelayCompensated().slots(Role.SERVER, World(Roles(2, 1), ONE))
    assert {Slot("then.0"), Slot("then.1")} < set(slots)


def test_an_old_gradient_is_corrected_before_it_is_applied() -> None:
    server = peer_of(DelayCompensated(), 2, num_workers=2)
    tell(server, received(0, "push"))
    assert Apply(Buffer("late.corrected", 0), P0, scale=1 / 2) in tell(server, received(1, "push"))


def test_what_a_newcomer_is_given_is_kept_as_what_it_computes_on() -> None:
    server = peer_of(DelayCompensated(), 3)
    tell(server, received(0, "push"), without(4))
    assert tell(server, came_again(4)) == [Combine(Buffer("then.1", 0), 0.0, P0), gives(1)]
    assert Note("age", 0) in tell(server, received(1, "push", 1))
