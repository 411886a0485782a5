"""What Linux tells of a TCP connection: how long something was under way on it, and how much has arrived."""

import socket
import struct

from weft.transports.transport import Traffic

_INFO = struct.Struct("<104x 16x Q Q 12x I 16x Q Q")
"""Of struct tcp_info: bytes acknowledged, and received; in microseconds, the shortest round trip, how long it was busy,
and for how long of that the receiver's window was full."""


def traffic(sock: socket.socket) -> Traffic | None:
    """What the system knows of a connection; None where it does not tell."""
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except (OSError, AttributeError):
        return None
    if len(raw) < _INFO.size:
        return None
    num_bytes, bytes_received, round_us, busy_us, full_us = _INFO.unpack(raw)
    return Traffic(max(0, busy_us - full_us) / 1e6, num_bytes, round_us / 1e6, bytes_received)
