"""Measures one connection between two hosts: round trips, the difference of their clocks, and bytes per second.

    caller                              answerer
    a ping                         ->
                                   <-   its clock
    ... some times
    a plan                         ->
    bytes for a while, then a mark ->   counts them
    counts them                    <-   bytes for a while, then a mark
    a ping                         ->
    both at once                   <->  both at once
                                   <-   its figures
    ... perhaps once more, then an end

Rates are those of bytes that arrive; the first `warm_s` seconds, TCP's slow start, are left out. For one direction the
median rate counts: what the link can carry. For both at once, as in training, the mean counts, since interruptions
hold up training, too. If the two directions differ much, they are measured once more, and the better figures count.
"""

import select
import socket
import struct
import time
from math import isfinite
from statistics import median
from typing import NamedTuple

from weft.core.errors import TransportError
from weft.transports.tls import Connection, TlsSocket

PING = struct.Struct("<cdd")
PINGS_MIN, PINGS_MAX, PINGS_S = 8, 100, 0.2
WARM_S, WARM_ROUND_TRIPS = 0.3, 15
WINDOW_S, WINDOW_ROUND_TRIPS = 0.5, 15
PHASE_S_MAX = 3.0
TRIES, ALIKE = 2, 0.75
TIMEOUT_S = 15.0
"""How long the other end may be silent: it may still be measuring another link."""
TCP_NOTSENT_LOWAT = 25
UNSENT_BYTES_MAX = 256 << 10
"""TCP_NOTSENT_LOWAT: unsent bytes in the socket's buffer at most, so that the mark arrives soon after it was sent."""
RECORD_BYTES = 16 << 10
BIN_S = 0.05
BIN_RECORDS_MIN = 4
"""The usual rate is the median over bins of BIN_S, so that a host that had no core for a moment counts for little; but
only if bins have at least BIN_RECORDS_MIN records on average."""
ROOM_BYTES = 1 << 20
MORE, LAST = 0, 1
"""Byte values: a stream of MORE ends with one LAST, the mark."""


class Trips(NamedTuple):
    """Results of the pings: the shortest and the median round trip, and how far the other's clock is ahead."""

    shortest_s: float
    usual_s: float
    skew_s: float


class ProbeResult(NamedTuple):
    """What one end measured; only the caller measures round trips."""

    incoming_bytes_per_s: float
    meanwhile_bytes_per_s: float
    """Incoming rate while this end sends, too."""
    trips: Trips | None = None

    def or_better(self, incoming: float, meanwhile: float) -> "ProbeResult":
        """The better of both measurements. The rate of one direction is at least that of both directions at once."""
        together = max(self.meanwhile_bytes_per_s, meanwhile)
        return ProbeResult(max(self.incoming_bytes_per_s, incoming, together), together)


NOTHING = ProbeResult(0.0, 0.0)


def measure(link: Connection, *, is_caller: bool) -> ProbeResult:
    """One end's part of the measurement; raises TransportError if the connection breaks or times out."""
    link.settimeout(TIMEOUT_S)
    if isinstance(link, TlsSocket):
        link.read_ahead()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
    try:
        return _call(link) if is_caller else _answer(link)
    except OSError as error:
        why = "it was silent for too long" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise TransportError(f"the connection broke while it was measured: {why}.") from error


def _call(link: Connection) -> ProbeResult:
    trips = _ping(link)
    warm_s = min(max(WARM_S, WARM_ROUND_TRIPS * trips.shortest_s), PHASE_S_MAX)
    window_s = min(max(WINDOW_S, WINDOW_ROUND_TRIPS * trips.shortest_s), PHASE_S_MAX)
    mine, theirs = NOTHING, NOTHING
    for _ in range(TRIES):
        link.sendall(PING.pack(b"g", warm_s, window_s))
        _send_for(link, warm_s + window_s)
        incoming = _receive(link, warm_s)
        link.sendall(PING.pack(b"b", 0.0, 0.0))
        meanwhile, heard = _both_ways(link, warm_s, window_s)
        mine = mine.or_better(incoming, meanwhile)
        theirs = theirs.or_better(*PING.unpack(_exactly(link, PING.size, heard))[1:])
        if min(mine.incoming_bytes_per_s, theirs.incoming_bytes_per_s) >= ALIKE * max(mine[0], theirs[0]):
            break
    link.sendall(PING.pack(b"e", 0.0, 0.0))
    return mine._replace(trips=trips)


def _answer(link: Connection) -> ProbeResult:
    found = NOTHING
    for _ in range(PINGS_MAX + TRIES + 1):
        kind, warm_s, window_s = PING.unpack(_exactly(link, PING.size))
        if kind == b"e":
            return found
        if kind == b"p":
            link.sendall(PING.pack(b"p", time.time(), 0.0))
        elif kind == b"g" and all(isfinite(each) and 0 <= each <= PHASE_S_MAX for each in (warm_s, window_s)):
            incoming = _receive(link, warm_s)
            _send_for(link, warm_s + window_s)
            _exactly(link, PING.size)
            found = found.or_better(incoming, _both_ways(link, warm_s, window_s)[0])
            link.sendall(PING.pack(b"f", *found[:2]))
        else:
            break
    raise TransportError("the other end does not measure as this one does: is its Weft another version?")


def _ping(link: Connection) -> Trips:
    """Measure round trips; the difference of clocks is taken from the shortest one."""
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
    shortest_s, skew_s = min(trips)
    return Trips(shortest_s, median(trip_s for trip_s, _ in trips), skew_s)


def _exactly(link: Connection, num_bytes: int, heard: bytes = b"") -> bytes:
    """Receive exactly `num_bytes` bytes, of which `heard` has arrived already."""
    while len(heard) < num_bytes:
        piece = link.recv(num_bytes - len(heard))
        if not piece:
            raise TransportError("the other end hung up while it was measured.")
        heard += piece
    return heard


def _send_for(link: Connection, duration_s: float) -> None:
    record, until_s = bytes([MORE]) * RECORD_BYTES, time.perf_counter() + duration_s
    while time.perf_counter() < until_s:
        link.sendall(record)
    link.sendall(bytes([LAST]))


def _receive(link: Connection, warm_s: float) -> float:
    """Receive until the mark; returns the usual rate in bytes per second."""
    room, tally = memoryview(bytearray(ROOM_BYTES)), Tally(warm_s)
    while not tally.is_over:
        tally.take(room[: link.recv_into(room)])
    return tally.usual_rate


def _both_ways(link: Connection, warm_s: float, window_s: float) -> tuple[float, bytes]:
    """Send and receive at the same time; returns the incoming rate, and the bytes that came after the mark."""
    room, tally = memoryview(bytearray(ROOM_BYTES)), Tally(warm_s)
    until_s = time.perf_counter() + warm_s + window_s
    record, last = bytes([MORE]) * RECORD_BYTES, bytes([LAST])
    to_send: bytes | None = record
    link.setblocking(False)
    while not (tally.is_over and to_send is None):
        is_stuck = True
        if to_send is not None and _sent(link, to_send):  # OpenSSL wants the same record again that it could not take
            to_send = None if to_send is last else record if time.perf_counter() < until_s else last
            is_stuck = False
        if not tally.is_over:
            length = _received(link, room)
            if length is not None:
                tally.take(room[:length])
                is_stuck = False
        has_unsent = _has_unsent(link) or to_send is not None
        if is_stuck and not any(select.select([link], [link] if has_unsent else [], [], TIMEOUT_S)):
            raise TimeoutError
    link.settimeout(TIMEOUT_S)
    _has_unsent(link)
    return tally.rate, tally.rest


def _has_unsent(link: Connection) -> bool:
    """Pass on what is encrypted already; whether some of it waits for the kernel."""
    if not isinstance(link, TlsSocket):
        return False
    link.flush()
    return link.unsent_bytes > 0


def _sent(link: Connection, record: bytes) -> bool:
    """Whether the kernel took some bytes of `record`. The rest need not be sent: all bytes of a stream are equal."""
    try:
        return link.send(record) > 0
    except BlockingIOError:
        return False


def _received(link: Connection, room: memoryview) -> int | None:
    try:
        return link.recv_into(room)
    except BlockingIOError:
        return None


class Tally:
    """Counts bytes until the mark. Rates are those after `warm_s`, or of everything if nothing arrived later."""

    def __init__(self, warm_s: float) -> None:
        self.is_over = False
        self.rest = b""
        """Bytes that came after the mark."""
        self._warm_s = warm_s
        self._num_bytes = 0
        self._first: tuple[float, int] | None = None
        self._warm: tuple[float, int] | None = None
        self._now_s = 0.0
        self._bins: list[int] = []

    def take(self, piece: memoryview) -> None:
        if not piece:
            raise TransportError("the other end hung up while it was measured.")
        self._now_s = time.perf_counter()
        self._num_bytes += len(piece)
        _, mark, self.rest = bytes(piece).partition(bytes([LAST]))
        self.is_over = bool(mark)
        if self._warm is not None:
            index = int((self._now_s - self._warm[0]) / BIN_S)
            self._bins += [0] * (index + 1 - len(self._bins))
            self._bins[index] += len(piece)
        if self._first is None:
            self._first = self._now_s, self._num_bytes
        if self._warm is None and self._now_s - self._first[0] >= self._warm_s:
            self._warm = self._now_s, self._num_bytes

    @property
    def rate(self) -> float:
        """Mean bytes per second."""
        for begun in (self._warm, self._first):
            if begun is not None and self._now_s > begun[0]:
                return (self._num_bytes - begun[1]) / (self._now_s - begun[0])
        return 0.0

    @property
    def usual_rate(self) -> float:
        """Median bytes per second over bins of BIN_S; the mean if bins are too small."""
        whole = self._bins[:-1]
        if not whole or sum(whole) < BIN_RECORDS_MIN * RECORD_BYTES * len(whole):
            return self.rate
        return median(whole) / BIN_S
