"""Traffic of a TCP connection by getsockopt(TCP_INFO): bytes, the shortest round trip, and the time it was busy."""

import socket
import struct

from weft.transports.tls import Connection
from weft.transports.transport import Traffic

_INFO = struct.Struct("<104x 16x Q Q 12x I 16x Q Q")
"""Fields of struct tcp_info: tcpi_bytes_acked, tcpi_bytes_received and, in microseconds, tcpi_min_rtt, tcpi_busy_time
and tcpi_rwnd_limited."""


def traffic(sock: Connection) -> Traffic | None:
    """What the kernel knows of a connection; None if its tcp_info lacks these fields."""
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except (OSError, AttributeError):
        return None
    if len(raw) < _INFO.size:
        return None
    num_bytes, bytes_received, round_us, busy_us, full_us = _INFO.unpack(raw)
    return Traffic(max(0, busy_us - full_us) / 1e6, num_bytes, round_us / 1e6, bytes_received)
