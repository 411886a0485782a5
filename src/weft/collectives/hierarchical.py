"""Hierarchical all-reduce: within hosts, between the hosts' leaders, and back."""

from weft.collectives.halving_doubling import halving_doubling
from weft.collectives.tree import tree
from weft.core.schedule import Give, Hosts, Schedule, Take, among, first_of_each


def hierarchical(rank: int, hosts: Hosts) -> Schedule:
    """The sum of its levels: a tree over the workers of a host, and halving-doubling between the hosts.

    The first rank of each host is its leader. Sums climb to the leaders, who reduce them among themselves; then the
    result comes down. So a host's link to the others carries each bucket once each way, however many workers
    share it.
    """
    mine = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    within = among(tree(mine.index(rank), len(mine)), mine)
    if rank != mine[0]:
        return within
    leaders = first_of_each(hosts)
    climb = tuple(step for step in within if isinstance(step, Take))
    down = tuple(step for step in within if isinstance(step, Give))
    between = among(halving_doubling(leaders.index(rank), len(leaders)), leaders, early=len(climb))
    return (*climb, *between, *down)
