"""Asynchronous SGD with delay compensation."""

from weft.core.actions import Apply
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
