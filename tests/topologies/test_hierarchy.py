"""Everybody talks inside a host; one place of each host talks to other hosts."""

import re

import pytest

from weft.core.errors import ConfigError
from weft.topologies import Complete, Hierarchy


def test_hosts_are_complete_and_their_first_places_a_ring() -> None:
    graph = Hierarchy(4).graph(12)
    assert graph.targets(0) == (1, 2, 3, 9)
    assert graph.targets(1) == (0, 2)
    assert graph.targets(3) == (0, 4, 5, 6)


def test_the_first_hosts_are_larger_when_hosts_cannot_be_equal() -> None:
    graph = Hierarchy(2).graph(5)
    assert graph.rounds == (((1, 2, 3), (0, 2), (0, 1), (0, 4), (3,)),)


def test_one_host_is_complete() -> None:
    assert Hierarchy(1).graph(5).rounds == Complete().graph(5).rounds


def test_more_hosts_than_workers_are_refused() -> None:
    message = (
        "topology 'hierarchy(hosts=4)' has 4 hosts, but there are 3 workers.\n"
        "  Use 'hierarchy(hosts=3)' or fewer hosts, or at least 4 workers."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Hierarchy(4).graph(3)


def test_no_hosts_are_refused() -> None:
    message = (
        "topology 'hierarchy(hosts=0)' has 0 hosts, but at least 1 is needed.\n"
        "  Use the number of machines, for example 'hierarchy(hosts=2)'."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Hierarchy(0)


def test_it_is_never_made_anew_for_those_who_are_left_because_hosts_would_change() -> None:
    assert Hierarchy(2).remade(7) is None
