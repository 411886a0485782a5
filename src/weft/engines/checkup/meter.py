"""What one connection between two hosts is worth: round trips, the difference of their clocks, and bytes per second.

    caller                              answerer
    a ping                         ->
                                   <-   its clock
    ... some times, then a plan    ->
    bytes for a while, then a mark ->   counts them
    counts them                    <-   bytes for a while, then a mark

Rates are those of what arrives. The beginning is left out: TCP first finds out how fast it may send.
"""

import socket
import struct
import time
from math import isfinite
from typing import NamedTuple

from weft.core.errors import TransportError

PING = struct.Struct("<cdd")
PINGS_MIN, PINGS_MAX, PINGS_S = 8, 100, 0.3
WARM_S, WARM_ROUND_TRIPS = 0.3, 15
WINDOW_S, WINDOW_ROUND_TRIPS = 0.7, 15
PHASE_S_MAX = 3.0
TIMEOUT_S = 15.0
"""How long the other may be silent: it may still be busy with somebody else."""
TCP_NOTSENT_LOWAT = 25
UNSENT_BYTES_MAX = 256 << 10
"""Of what is sent, no more than this waits in memory, so that the end comes soon after the last byte was sent."""
RECORD_BYTES = 16 << 10
ROOM_BYTES = 1 << 20
MORE, LAST = 0, 1
"""A stream of the first ends with one of the second."""


class Measured(NamedTuple):
    """What one end found out; only the caller times round trips."""

    incoming_bytes_per_s: float
    round_trip_s: float | None = None
    skew_s: float | None = None


def measure(link: socket.socket, *, is_caller: bool) -> Measured:
    """One end's part of the measurement; raises TransportError if the connection breaks, or the other falls silent."""
    link.settimeout(TIMEOUT_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    try:
        return _call(link) if is_caller else _answer(link)
    except OSError as error:
        why = "it was silent for too long" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise TransportError(f"the connection broke while it was measured: {why}.") from error


def _call(link: socket.socket) -> Measured:
    round_trip_s, skew_s = _ping(link)
    warm_s = min(max(WARM_S, WARM_ROUND_TRIPS * round_trip_s), PHASE_S_MAX)
    window_s = min(max(WINDOW_S, WINDOW_ROUND_TRIPS * round_trip_s), PHASE_S_MAX)
    link.sendall(PING.pack(b"g", warm_s, window_s))
    _send_for(link, warm_s + window_s)
    return Measured(_receive(link, warm_s), round_trip_s, skew_s)


def _answer(link: socket.socket) -> Measured:
    for _ in range(PINGS_MAX + 1):
        kind, warm_s, window_s = PING.unpack(_exactly(link, PING.size))
        if kind == b"g":
            break
        link.sendall(PING.pack(b"p", time.time(), 0.0))
    if kind != b"g" or not all(isfinite(each) and 0 <= each <= PHASE_S_MAX for each in (warm_s, window_s)):
        raise TransportError("the other end does not measure as this one does: is its Weft another version?")
    incoming = _receive(link, warm_s)
    _send_for(link, warm_s + window_s)
    return Measured(incoming)


def _ping(link: socket.socket) -> tuple[float, float]:
    """The shortest round trip, and by how much the other's clock is ahead, as that round trip tells."""
    trips: list[tuple[float, float]] = []
    began_s = time.perf_counter()
    while len(trips) < PINGS_MIN or (len(trips) < PINGS_MAX and time.perf_counter() - began_s < PINGS_S):
        clock_s, sent_s = time.time(), time.perf_counter()
        link.sendall(PING.pack(b"p", 0.0, 0.0))
        _, theirs_s, _ = PING.unpack(_exactly(link, PING.size))
        trip_s = time.perf_counter() - sent_s
        if not isfinite(theirs_s):
            raise TransportError("the other end does not measure as this one does: is its Weft another version?")
        trips.append((trip_s, theirs_s - (clock_s + trip_s / 2)))
    return min(trips)


def _exactly(link: socket.socket, num_bytes: int) -> bytes:
    heard = b""
    while len(heard) < num_bytes:
        piece = link.recv(num_bytes - len(heard))
        if not piece:
            raise TransportError("the other end hung up while it was measured.")
        heard += piece
    return heard


def _send_for(link: socket.socket, duration_s: float) -> None:
    record, until_s = bytes([MORE]) * RECORD_BYTES, time.perf_counter() + duration_s
    while time.perf_counter() < until_s:
        link.sendall(record)
    link.sendall(bytes([LAST]))


def _receive(link: socket.socket, warm_s: float) -> float:
    """Bytes per second of what comes until the mark, after a while of warming up; of all, if little comes then."""
    room, num_bytes = memoryview(bytearray(ROOM_BYTES)), 0
    first_s = begin_s = now_s = 0.0
    before = 0
    while True:
        length = link.recv_into(room)
        if not length:
            raise TransportError("the other end hung up while it was measured.")
        now_s = time.perf_counter()
        if not num_bytes:
            first_s, num_first = now_s, length
        num_bytes += length
        if not begin_s and now_s - first_s >= warm_s:
            begin_s, before = now_s, num_bytes
        if room[length - 1] == LAST:
            break
    if begin_s and now_s > begin_s and num_bytes > before:
        return (num_bytes - before) / (now_s - begin_s)
    return (num_bytes - num_first) / (now_s - first_s) if now_s > first_s else 0.0
