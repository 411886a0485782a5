"""The schedule by which the leaders of hosts all-reduce their hosts' sums, as hops for runtime/reduce."""

from weft.collectives import butterfly, halving_doubling
from weft.core.names import Part
from weft.core.schedule import Give, Schedule
from weft.cost.collectives import butterfly_s, halving_doubling_s, num_rounds
from weft.runtime.connections import LINKS, TLS
from weft.runtime.reduce.exchange import Hop, Plan, plan_of

PIECE_BYTES = 2 << 20
"""Each piece of a bucket is exchanged by itself: what is received stays in the cache until it is summed."""
ADDING_BYTES_PER_S = 5e9
"""What a core adds to a sum, if the sum is not in the cache."""


def plans_between(host: int, num_hosts: int, num_bytes: int) -> list[Plan]:
    """The plans of the leader of host `host` for the pieces of a bucket of `num_bytes`.

    Butterfly (few messages) for small buckets, halving-doubling (few bytes, and sums) for large ones, by their costs.
    """
    if _butterfly_s(num_hosts, num_bytes) <= _halving_doubling_s(num_hosts, num_bytes):
        return [plan_of(_hops(butterfly(host, num_hosts)), None)]
    schedule, num_pieces = halving_doubling(host, num_hosts), max(1, num_bytes // PIECE_BYTES)
    pieces = [Part(piece, num_pieces) for piece in range(num_pieces)]
    return [plan_of(_hops(_within(schedule, piece)), piece) for piece in pieces]


def _butterfly_s(num_hosts: int, num_bytes: int) -> float:
    return butterfly_s(num_hosts, num_bytes, LINKS[TLS]) + num_rounds(num_hosts) * num_bytes / ADDING_BYTES_PER_S


def _halving_doubling_s(num_hosts: int, num_bytes: int) -> float:
    adding_s = (num_hosts - 1) / num_hosts * num_bytes / ADDING_BYTES_PER_S
    return halving_doubling_s(num_hosts, num_bytes, LINKS[TLS]) + adding_s


def _within(schedule: Schedule, piece: Part) -> Schedule:
    """The same schedule for a piece of a bucket: its parts are parts of the piece."""
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
    """Whether nothing is written to what is given but by what its receiver gives back."""
    return all(
        isinstance(step, Give) or not _overlap(step.part, given.part) or (step.replace and step.source == given.to)
        for step in later
    )


def _overlap(one: Part | None, other: Part | None) -> bool:
    if one is None or other is None:
        return True
    return one.which * other.of < (other.which + 1) * one.of and other.which * one.of < (one.which + 1) * other.of
