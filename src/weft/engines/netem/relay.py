"""The relay: a process that makes the workers' namespaces and carries their packets, as slowly as was asked for.

Started by the launcher as `python -m weft.engines.netem.relay SOCKET LAUNCHER PLAN`. It hands the namespaces over,
tells now and then what it has carried, and ends with the launcher: the devices go with it.
"""

import gc
import os
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from weft.engines.netem.links import EmulatedLink, Links
from weft.engines.netem.namespaces import MTU_BYTES, enter, make_namespace, own_namespace, rank_at
from weft.lifeline import die_with_parent

FDS_PER_MESSAGE = 200
BATCH = 64
"""After so many packets of one worker it is the others' turn."""
TICK_S = 0.0005
"""While packets are under way, they are looked after so often and not for each one: that takes a quarter less time."""
TELL_S = 0.2
NICENESS = -15
"""The relay needs little time, but needs it at once: packets do not wait for a core."""


class RelayPlan(msgspec.Struct, frozen=True):
    """What the relay is told."""

    lines: list[EmulatedLink]
    """Of the workers, in order of rank."""
    seed: int


class Carried(msgspec.Struct, frozen=True):
    """What the relay tells: what has come out of the network so far, and what has not."""

    num_bytes: int = 0
    num_packets: int = 0
    num_lost: int = 0
    """As was asked for."""
    num_dropped: int = 0
    """Because a queue was full."""
    error: str = ""
    """Why there is no network."""


def main() -> None:
    """Make the network, then carry packets until the launcher has no more need of it."""
    die_with_parent(int(sys.argv[2]))
    end = socket.socket(fileno=int(sys.argv[1]))
    plan = msgspec.json.decode(sys.argv[3], type=RelayPlan)
    try:
        tuns = _make(end, len(plan.lines))
    except OSError as error:
        end.send(msgspec.json.encode(Carried(error=str(error))))
        return
    with suppress(PermissionError):  # root in a container may lack the right; then it is only less punctual
        os.nice(NICENESS)
    gc.disable()  # nothing here is circular
    _carry(end, tuns, Links(plan.lines, plan.seed))


def _make(end: socket.socket, num_workers: int) -> list[int]:
    """Make all namespaces and hand them over; keeps the devices."""
    home = own_namespace()
    made = [make_namespace(rank) for rank in range(num_workers)]
    enter(home)
    namespaces = [namespace for namespace, _ in made]
    for start in range(0, num_workers, FDS_PER_MESSAGE):
        socket.send_fds(end, [msgspec.json.encode(Carried())], namespaces[start : start + FDS_PER_MESSAGE])
    for descriptor in (home, *namespaces):
        os.close(descriptor)
    return [tun for _, tun in made]


def _carry(end: socket.socket, tuns: Sequence[int], links: Links) -> None:
    rank_of = {tun: rank for rank, tun in enumerate(tuns)}
    watched, told, tell_s = select.poll(), 0, 0.0
    for descriptor in (end.fileno(), *tuns):
        watched.register(descriptor, select.POLLIN)
    while True:
        timeout_s = TELL_S
        if links.next_s is not None:
            time.sleep(TICK_S)
            timeout_s = min(TELL_S, max(0.0, links.next_s - time.monotonic()))
        readable = watched.poll(timeout_s * 1e3)
        now_s = time.monotonic()
        for descriptor, _ in readable:
            if descriptor not in rank_of:  # the launcher never says anything: it has no more need of us
                _tell(end, links)
                return
            _take(descriptor, rank_of[descriptor], links, len(tuns), now_s)
        for target, packet in links.due(now_s):
            os.write(tuns[target], packet)
        if now_s >= tell_s and links.num_packets != told:
            told, tell_s = links.num_packets, now_s + TELL_S
            _tell(end, links)


def _tell(end: socket.socket, links: Links) -> None:
    carried = Carried(links.num_bytes, links.num_packets, links.num_lost, links.num_dropped)
    with suppress(OSError):  # nobody hears it
        end.send(msgspec.json.encode(carried), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _take(tun: int, source: int, links: Links, num_workers: int, now_s: float) -> None:
    """Read what a worker has sent; what is for nobody here is thrown away."""
    for _ in range(BATCH):
        try:
            packet = os.read(tun, MTU_BYTES)
        except BlockingIOError:
            return
        target = rank_at(packet[16:20])
        if packet[0] >> 4 == 4 and 0 <= target < num_workers:
            links.send(source, target, packet, now_s)


if __name__ == "__main__":
    main()
