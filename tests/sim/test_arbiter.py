"""The engine's store: one view after another."""

from weft.sim.arbiter import Arbiter, View


def test_views_follow_each_other_and_lose_those_that_leave() -> None:
    arbiter = Arbiter(range(4), first=0)
    assert arbiter.view == View(0, 0, (0, 1, 2, 3), "the run began")
    assert arbiter.decide(50, [2], "lost worker 2") == View(1, 50, (0, 1, 3), "lost worker 2")
    arbiter.decide(70, [], "moved server 0")
    assert arbiter.view == View(2, 70, (0, 1, 3), "moved server 0")
    assert [arbiter.members_of(number) for number in range(3)] == [(0, 1, 2, 3), (0, 1, 3), (0, 1, 3)]
    assert [view.number for view in arbiter.views] == [0, 1, 2]
