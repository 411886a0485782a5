"""The relay: a process that makes the workers' namespaces and carries their packets between TUN devices, delayed.

Started by the launcher as `python -m weft.engines.netem.relay SOCKET LAUNCHER PLAN`. It passes the namespaces to the
launcher (SCM_RIGHTS), and reports every TELL_S what it has carried. It ends with the launcher (PR_SET_PDEATHSIG), and
the TUN devices end with it.
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
from weft.parent_death import die_with_parent

FDS_PER_MESSAGE = 200
BATCH = 64
"""At most this many packets are read from one worker before the next worker's turn."""
TICK_S = 0.0005
"""While packets are under way, the relay sleeps this long between turns: batches take a quarter less CPU time."""
TELL_S = 0.2
NICENESS = -15
"""The relay needs little CPU time, but at once: a late packet would look like a slower network."""


class RelayPlan(msgspec.Struct, frozen=True):
    """The relay's orders, on its command line."""

    lines: list[EmulatedLink]
    """The links of the workers, in order of rank."""
    seed: int


class Carried(msgspec.Struct, frozen=True):
    """The relay's figures: bytes and packets that it has delivered so far, and packets that were lost or dropped."""

    num_bytes: int = 0
    num_packets: int = 0
    num_lost: int = 0
    """Packets lost at random, at the rate that was asked for."""
    num_dropped: int = 0
    """Packets dropped because a queue was full."""
    error: str = ""
    """Why the network could not be made; empty if it was."""


def main() -> None:
    """Make the network, then carry packets until the launcher shuts the socket down."""
    die_with_parent(int(sys.argv[2]))
    end = socket.socket(fileno=int(sys.argv[1]))
    plan = msgspec.json.decode(sys.argv[3], type=RelayPlan)
    try:
        tuns = _make(end, len(plan.lines))
    except OSError as error:
        end.send(msgspec.json.encode(Carried(error=str(error))))
        return
    with suppress(PermissionError):  # root in a container may lack CAP_SYS_NICE; then packets are less punctual
        os.nice(NICENESS)
    gc.disable()  # there are no reference cycles here, and collections would delay packets
    _carry(end, tuns, Links(plan.lines, plan.seed))


def _make(end: socket.socket, num_workers: int) -> list[int]:
    """Make all namespaces and pass them to the launcher; returns the TUN devices."""
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
            if descriptor not in rank_of:  # the launcher never sends anything: it has shut its end down
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
    with suppress(OSError):  # the launcher is gone, or reads too slowly: newer figures will follow
        end.send(msgspec.json.encode(carried), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


def _take(tun: int, source: int, links: Links, num_workers: int, now_s: float) -> None:
    """Read packets of worker `source`; those that are not IPv4 to another worker are thrown away."""
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
