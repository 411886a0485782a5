"""The hierarchical schedule."""

from weft.collectives import halving_doubling, hierarchical, tree
from weft.core.names import Part
from weft.core.schedule import Give, Take

PAIRS = (4, 4, 9, 9)


def test_sums_climb_to_the_leader_who_exchanges_with_other_leaders_and_hands_the_result_down() -> None:
    assert hierarchical(0, PAIRS) == (
        Take(1, early=0),
        Give(2, Part(1, 2)),
        Take(2, Part(0, 2), early=1),
        Give(2, Part(0, 2)),
        Take(2, Part(1, 2), replace=True, early=1),
        Give(1),
    )


def test_the_others_speak_within_their_host_only() -> None:
    assert hierarchical(3, PAIRS) == (Give(2), Take(2, replace=True))
    assert hierarchical(5, (0, 1, 2, 0, 1, 2)) == (Give(2), Take(2, replace=True))


def test_on_one_host_it_is_a_tree_and_with_one_worker_each_it_is_halving_doubling() -> None:
    for rank in range(6):
        assert hierarchical(rank, (3,) * 6) == tree(rank, 6)
        assert hierarchical(rank, (5, 4, 3, 2, 1, 0)) == halving_doubling(rank, 6)


def test_each_bucket_crosses_a_hosts_link_once_each_way() -> None:
    hosts = (0,) * 4 + (1,) * 4
    crossing = [
        step.part
        for rank in range(8)
        for step in hierarchical(rank, hosts)
        if isinstance(step, Give) and hosts[step.to] != hosts[rank]
    ]
    assert sorted(part for part in crossing if part) == [Part(0, 2), Part(0, 2), Part(1, 2), Part(1, 2)]
