"""The schedule by which the leaders of hosts all-reduce their hosts' sums, as hops for runtime/reduce."""

from weft.collectives import butterfly, halving_doubling, ring
from weft.core.names import Part
from weft.core.schedule import FlatScheduler, Give, Schedule
from weft.cost.collectives import butterfly_s, halving_doubling_s, num_rounds, ring_s
from weft.cost.links import Link
from weft.runtime.connections import LINKS, TLS
from weft.runtime.reduce.exchange import Hop, Plan, plan_of

PIECE_BYTES = 2 << 20
"""Each piece of a bucket is exchanged by itself: what is received stays in the cache until it is summed."""
ADDING_BYTES_PER_S = 5e9
"""What a core adds to a sum, if the sum is not in the cache."""


def plans_between(host: int, num_hosts: int, num_bytes: int, link: Link = LINKS[TLS]) -> list[Plan]:
    """The plans of the leader of host `host` for the pieces of a bucket of `num_bytes`: those of the schedule that is
    the cheapest if each host has such a link.

    Butterfly for small buckets (few messages), and for large ones (few bytes, and sums) halving-doubling or a ring.
    """
    scheduler = _cheapest(num_hosts, num_bytes, link)
    schedule = scheduler(host, num_hosts)
    is_cut = any(step.part is not None for step in scheduler(0, num_hosts))  # a folded host's own has no parts
    num_pieces = max(1, num_bytes // PIECE_BYTES) if is_cut else 1
    pieces = [Part(piece, num_pieces) for piece in range(num_pieces)] if num_pieces > 1 else [None]
    return [plan_of(_hops(_within(schedule, piece)), piece) for piece in pieces]


def _cheapest(num_hosts: int, num_bytes: int, link: Link) -> FlatScheduler:
    adding_s = num_bytes / ADDING_BYTES_PER_S
    power = 1 << (num_hosts.bit_length() - 1)
    # hosts beyond a power of two give their sums to others, and are given the result
    folding_s = 2 * link.seconds(num_bytes) if num_hosts > power else 0.0
    costs_s: dict[FlatScheduler, float] = {
        butterfly: folding_s + butterfly_s(power, num_bytes, link) + num_rounds(power) * adding_s,
        halving_doubling: folding_s + halving_doubling_s(power, num_bytes, link) + (power - 1) / power * adding_s,
        ring: ring_s(num_hosts, num_bytes, link) + (num_hosts - 1) / num_hosts * adding_s,
    }
    return min(costs_s, key=costs_s.__getitem__)


def _within(schedule: Schedule, piece: Part | None) -> Schedule:
    """The same schedule for a piece of a bucket: its parts are parts of the piece."""
    if piece is None:
        return schedule
    return tuple(step._replace(part=_part_of(piece, step.part)) for step in schedule)


def _part_of(piece: Part, part: Part | None) -> Part:
    return piece if part is None else Part(piece.which * part.of + part.which, piece.of * part.of)


def _hops(schedule: Schedule) -> list[Hop]:
    return [
        Hop(step.to, step.part, is_sent=True, is_lent=_stays(step, schedule[at + 1 :]))
        if isinstance(step, Give)
        else Hop(step.source, step.part, is_sent=False, replaces=step.replace)
        for at, step in enumerate(schedule)
    ]


def _stays(given: Give, later: Schedule) -> bool:
    """Whether nothing is written to what is given before its receiver has it. What replaces it is complete, and so was
    made of it."""
    return all(isinstance(step, Give) or step.replace or not _overlap(step.part, given.part) for step in later)


def _overlap(one: Part | None, other: Part | None) -> bool:
    if one is None or other is None:
        return True
    return one.which * other.of < (other.which + 1) * one.of and other.which * one.of < (one.which + 1) * other.of
