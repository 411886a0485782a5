"""What crosses the network device of a host: every TCP connection, both ways, as the bytes that were sent."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from support.network.namespaces import inside
from weft.engines.netem.namespaces import DEVICE

ALL_PROTOCOLS, IPV4, TCP = 0x0003, 0x0800, 6
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 256 << 20
SYN = 0x02
RECORD = struct.Struct(">BHH")
TLS_KINDS = {20: "change cipher spec", 21: "alert", 22: "handshake", 23: "data"}
TLS_VERSIONS = (0x0301, 0x0303)
RECORD_BYTES_MAX = (16 << 10) + 256
TLS_1_3 = bytes.fromhex("002b00020304")
"""How an answer chooses version 1.3."""


class Way(NamedTuple):
    """One direction of a connection."""

    source: str
    source_port: int
    target: str
    target_port: int


class Capture:
    """What was seen at a host's device."""

    def __init__(self) -> None:
        self.others: set[str] = set()
        """Addresses of packets that are no TCP, with their protocol."""
        self._starts: dict[Way, int] = {}
        self._pieces: dict[Way, dict[int, bytes]] = {}

    def take(self, packet: bytes) -> None:
        """A packet, from its IPv4 header on."""
        controller, total = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
        source, target = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
        if packet[9] != TCP:
            self.others.add(f"protocol {packet[9]} from {source} to {target}")
            return
        source_port, target_port, number = struct.unpack_from(">HHI", packet, controller)
        way = Way(source, source_port, target, target_port)
        if packet[controller + 13] & SYN:
            self._starts[way] = number + 1
        body = packet[controller + (packet[controller + 12] >> 4) * 4 : total or None]
        if body:
            known = self._pieces.setdefault(way, {})
            if len(body) > len(known.get(number, b"")):
                known[number] = body

    def streams(self) -> dict[Way, bytes]:
        """The bytes of each direction, in order and once; of a connection that began before, from where we came."""
        return {way: self._stream(way) for way in self._pieces}

    def _stream(self, way: Way) -> bytes:
        pieces = self._pieces[way]
        start = self._starts.get(way, min(pieces))
        stream = bytearray()
        for number in sorted(pieces, key=lambda number: (number - start) & 0xFFFFFFFF):
            place = (number - start) & 0xFFFFFFFF
            assert place <= len(stream), f"{way}: bytes {len(stream)} to {place} were not captured"
            stream += pieces[number][len(stream) - place :]
        return bytes(stream)


@contextmanager
def capture(namespace: int) -> Iterator[Capture]:
    """Everything that comes to or leaves a host from now on; complete at the end of the `with`."""
    seen = Capture()
    sock = inside(namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PROTOCOLS)))
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    sock.settimeout(0.1)
    ended = threading.Event()

    def listen() -> None:
        while True:
            try:
                packet, (device, protocol, *_) = sock.recvfrom(1 << 17)
            except TimeoutError:
                if ended.is_set():
                    return
                continue
            if device == DEVICE and protocol == IPV4:
                seen.take(packet)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        sock.close()


def tls_records(stream: bytes) -> list[str] | None:
    """The kinds of the TLS records that a stream consists of, the last of which may be cut; None if it is not TLS."""
    kinds, place = [], 0
    while place + RECORD.size <= len(stream):
        kind, version, num_bytes = RECORD.unpack_from(stream, place)
        if kind not in TLS_KINDS or version not in TLS_VERSIONS or not 0 < num_bytes <= RECORD_BYTES_MAX:
            return None
        kinds.append(TLS_KINDS[kind])
        place += RECORD.size + num_bytes
    return kinds or None


def is_tls_1_3(there: bytes, back: bytes) -> bool:
    """Both directions of a connection are TLS from the first byte on, and the answer chose version 1.3."""
    first = [(tls_records(stream) or [""])[0] for stream in (there, back)]
    return first == ["handshake"] * 2 and any(TLS_1_3 in stream[:512] for stream in (there, back))
