"""Which lowering of an all-reduce is the cheapest where its workers sit, and what each would cost.

The formulas of `cost/collectives.py` are for one kind of link. Here workers sit on hosts: a host's workers share its
link to the others, and speak over faster ones among themselves. Where all sit on one host, or each on its own, the
prices are those formulas.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from weft.cost.collectives import hierarchical_s, num_rounds
from weft.cost.links import Link

HIERARCHICAL = "hierarchical"


class Ground(NamedTuple):
    """Where a group sits: the workers of each host, the links within a host, and each host's link to the others."""

    sizes: tuple[int, ...]
    within: Link
    between: Link

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def shares_links(self) -> bool:
        """Workers of a host share its link to other hosts."""
        return len(self.sizes) > 1 and max(self.sizes) > 1

    @property
    def slowest(self) -> Link:
        """The link that holds everybody up."""
        return self.between if len(self.sizes) > 1 else self.within


def ring_s(num_bytes: float, ground: Ground) -> float:
    """A part goes around hop by hop, and the slowest link passes all of them on, one after another."""
    hops, part = ground.size - 1, num_bytes / ground.size
    crossings = min(len(ground.sizes), hops) if len(ground.sizes) > 1 else 0
    around_s = (hops - crossings) * ground.within.seconds(part) + crossings * ground.between.seconds(part)
    return 2 * max(around_s, hops * part / ground.slowest.bandwidth_bytes_per_s)


def tree_s(num_bytes: float, ground: Ground) -> float:
    """The levels within a host, and those between hosts."""
    levels_s = num_rounds(max(ground.sizes)) * ground.within.seconds(num_bytes)
    return 2 * (levels_s + num_rounds(len(ground.sizes)) * ground.between.seconds(num_bytes))


def butterfly_s(num_bytes: float, ground: Ground) -> float:
    """All workers of a host swap whole buckets with other hosts at once, over its one link."""
    most = max(ground.sizes)
    inside_s = num_rounds(most) * ground.within.seconds(num_bytes)
    return inside_s + num_rounds(len(ground.sizes)) * ground.between.seconds(most * num_bytes)


def halving_doubling_s(num_bytes: float, ground: Ground) -> float:
    """The large halves cross between hosts, all workers of a host at once; the small ones stay within."""
    most, num_hosts = max(ground.sizes), len(ground.sizes)
    crossing = most * num_bytes * (num_hosts - 1) / num_hosts / ground.between.bandwidth_bytes_per_s
    inside = num_bytes / num_hosts * (most - 1) / most / ground.within.bandwidth_bytes_per_s
    latencies_s = num_rounds(num_hosts) * ground.between.latency_s + num_rounds(most) * ground.within.latency_s
    return 2 * (latencies_s + crossing + inside)


def partitioned_linear_s(num_bytes: float, ground: Ground) -> float:
    """In each cycle a worker speaks to both neighbours; here it has one link for both, so they take turns.

    Not more than this: parts that have nothing to wait for do better.
    """
    turns = 2 if ground.size > 2 else 1
    return 2 * (ground.size - 1) * ground.slowest.seconds(turns * num_bytes / ground.size)


PRICES: dict[str, Callable[[float, Ground], float]] = {
    "ring": ring_s,
    "tree": tree_s,
    "butterfly": butterfly_s,
    "halving_doubling": halving_doubling_s,
    "hierarchical": lambda num_bytes, ground: hierarchical_s(ground.sizes, num_bytes, ground.within, ground.between),
    "partitioned_linear": partitioned_linear_s,
}


def prices_s(bucket_bytes: Iterable[int], ground: Ground) -> dict[str, float]:
    """What each lowering costs for these buckets, one after another."""
    sizes = list(bucket_bytes)
    return {name: sum(price(num_bytes, ground) for num_bytes in sizes) for name, price in PRICES.items()}


def cheapest(prices: Mapping[str, float]) -> str:
    """The lowering with the lowest price; of equals the first."""
    return min(prices, key=lambda name: prices[name])


def taken(bucket_bytes: Iterable[int], ground: Ground) -> str:
    """The lowering that is taken if none is asked for: the cheapest, but one stream for each host where some share it.

    Something else may answer sooner when nobody else is on the network, and takes it from everybody when somebody is.
    """
    return HIERARCHICAL if ground.shares_links else cheapest(prices_s(bucket_bytes, ground))
