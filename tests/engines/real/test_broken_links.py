"""Connections that broke between workers that live: who is given up."""

from weft.engines.real import timeouts
from weft.engines.real.broken_links import BrokenLinks

LATER_S = 1.01 * timeouts.LINK_BROKEN_S


def broken(*pairs: tuple[int, int]) -> BrokenLinks:
    links = BrokenLinks()
    for rank, other in pairs:
        links.tell(rank, other, 0.0)
    return links


def test_nobody_is_given_up_while_one_of_the_two_may_turn_out_dead() -> None:
    links = broken((1, 2))
    links.tell(2, 1, 0.9 * timeouts.LINK_BROKEN_S)
    assert links.to_give_up(range(4), 0.9 * timeouts.LINK_BROKEN_S) == {}
    assert links.to_give_up([0, 2, 3], LATER_S) == {}, "worker 1 is dead"
    assert links.to_give_up(range(4), LATER_S) == {2: "its connection to worker 1 broke"}


def test_the_worker_with_most_broken_connections_is_given_up() -> None:
    links = broken((1, 0), (2, 1), (1, 3))
    assert links.to_give_up(range(4), LATER_S) == {1: "its connection to worker 0 and worker 2 and worker 3 broke"}


def test_connections_that_broke_a_moment_later_show_whose_network_failed() -> None:
    links = broken((1, 2))
    links.tell(0, 1, 0.2)
    links.tell(3, 1, 0.2)
    assert links.to_give_up(range(4), LATER_S) == {1: "its connection to worker 0 and worker 2 and worker 3 broke"}


def test_workers_are_given_up_until_all_connections_are_whole() -> None:
    assert broken((0, 1), (2, 3)).to_give_up(range(4), LATER_S) == {
        3: "its connection to worker 2 broke",
        1: "its connection to worker 0 broke",
    }


def test_connections_of_a_lost_worker_are_nobodys_any_more() -> None:
    links = broken((1, 2), (0, 3))
    links.lose(2)
    assert links.to_give_up(range(4), LATER_S) == {3: "its connection to worker 0 broke"}
