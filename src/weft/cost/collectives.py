"""What an all-reduce costs (Ben-Nun & Hoefler 2018, "Parallel reductions for parameter updates").

L is a link's latency, G its time per byte, m the bytes of a bucket, P the size of the group. The
formulas are exact for powers of two; other sizes round log2 P up.
"""

from collections.abc import Callable, Sequence

from weft.cost.links import Link


def num_rounds(size: int) -> int:
    """log2 P, rounded up."""
    return (size - 1).bit_length()


def tree_s(size: int, num_bytes: float, link: Link) -> float:
    """2 L log2 P + 2 m G log2 P."""
    return 2 * num_rounds(size) * link.seconds(num_bytes)


def butterfly_s(size: int, num_bytes: float, link: Link) -> float:
    """L log2 P + m G log2 P."""
    return num_rounds(size) * link.seconds(num_bytes)


def ring_s(size: int, num_bytes: float, link: Link) -> float:
    """2 L (P-1) + 2 m G (P-1)/P."""
    return 2 * (size - 1) * link.seconds(num_bytes / size)


def halving_doubling_s(size: int, num_bytes: float, link: Link) -> float:
    """2 L log2 P + 2 m G (P-1)/P."""
    return 2 * num_rounds(size) * link.latency_s + 2 * (size - 1) / size * num_bytes / link.bandwidth_bytes_per_s


def partitioned_linear_s(size: int, num_bytes: float, link: Link) -> float:
    """2 L (P-1) + 2 m G (P-1)/P, where every two neighbours on the line have a link of their own."""
    return 2 * (size - 1) * link.seconds(num_bytes / size)


def hierarchical_s(sizes: Sequence[int], num_bytes: float, within: Link, between: Link) -> float:
    """The sum of its levels: a tree on the host with the most workers, halving-doubling between the hosts.

    `sizes` are the workers of each host.
    """
    return tree_s(max(sizes), num_bytes, within) + halving_doubling_s(len(sizes), num_bytes, between)


FORMULAS: dict[str, Callable[[int, float, Link], float]] = {
    "ring": ring_s,
    "tree": tree_s,
    "butterfly": butterfly_s,
    "halving_doubling": halving_doubling_s,
}


def allreduce_s(size: int, num_bytes: float, link: Link) -> float:
    """What a good native all-reduce takes: the cheapest of the formulas."""
    return _cheapest(size, num_bytes, link)(size, num_bytes, link) if size > 1 else 0.0


def allreduce_transfer_s(size: int, num_bytes: float, link: Link) -> float:
    """The part of that in which bytes are on the link; the rest is latency, which others may fill."""
    if size == 1:
        return 0.0
    formula = _cheapest(size, num_bytes, link)
    return formula(size, num_bytes, link) - formula(size, 0, link)


def _cheapest(size: int, num_bytes: float, link: Link) -> Callable[[int, float, Link], float]:
    return min(FORMULAS.values(), key=lambda formula: formula(size, num_bytes, link))


def allreduce_bytes(size: int, num_bytes: int) -> int:
    """What all members together send in a bandwidth-optimal all-reduce: 2 (P-1) m."""
    return 2 * (size - 1) * num_bytes
