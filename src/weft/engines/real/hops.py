"""The schedule by which the leaders of hosts all-reduce their hosts' sums, as hops for runtime/reduce."""

from weft.collectives import butterfly, halving_doubling
from weft.core.schedule import Give, Schedule
from weft.cost.collectives import butterfly_s, halving_doubling_s
from weft.runtime.connections import LINKS, TLS
from weft.runtime.reduce.between_hosts import Hop


def hops_between(host: int, num_hosts: int, num_bytes: int) -> list[Hop]:
    """The hops of the leader of host `host` for a bucket of `num_bytes`.

    Butterfly (few messages) for small buckets, halving-doubling (few bytes) for large ones, by their cost formulas.
    """
    link = LINKS[TLS]
    is_small = butterfly_s(num_hosts, num_bytes, link) <= halving_doubling_s(num_hosts, num_bytes, link)
    return _hops((butterfly if is_small else halving_doubling)(host, num_hosts))


def _hops(schedule: Schedule) -> list[Hop]:
    return [
        Hop(step.to, step.part, is_sent=True)
        if isinstance(step, Give)
        else Hop(step.source, step.part, is_sent=False, replaces=step.replace)
        for step in schedule
    ]
