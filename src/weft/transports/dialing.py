"""Connects to a process of the job; both ends prove by a handshake that they know the job's secret."""

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from secrets import token_bytes
from time import monotonic
from typing import TYPE_CHECKING

from weft.core.errors import ConfigError, NodeLost, TransportError
from weft.transports.handshake import NONCE_BYTES, Candidate, HandshakeRefused, Steps, call, certified_name
from weft.transports.tls import Connection, TlsSocket
from weft.transports.transport import Rank

if TYPE_CHECKING:
    from weft.transports.openssl import TlsContext

Address = tuple[str, int]

CALLS_MAX = 3
"""How often to connect to a process that closes the connection: under a flood of strangers it may have had to."""


def to_ip(host: str) -> IPv4Address | IPv6Address:
    """`host` as an IP address; raises ConfigError if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        raise ConfigError(f"'{host}' is not an IP address.\n  Use one such as 127.0.0.1.") from None


def check_loopback(addresses: Iterable[tuple[Rank, Address]]) -> None:
    """Raise ConfigError for a rank that is not on loopback, where alone connections may be plain."""
    for rank, (host, *_) in addresses:
        if not to_ip(host).is_loopback:
            raise ConfigError(
                f"rank {rank} is at '{host}', off loopback, where connections must be encrypted.\n"
                "  Pass tls=contexts(authority.issue(rank)), or listen on 127.0.0.1."
            )


def new_socket(host: str) -> socket.socket:
    """A TCP socket of the address family of `host`."""
    # SO_SNDBUF and SO_RCVBUF are left to the kernel: 1 and 4 MiB were not faster on loopback, and end its autotuning.
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)


def dial(
    address: tuple[str, int],
    me: Rank,
    other: Rank,
    secret: bytes,
    tls: "TlsContext | None",
    timeout_s: float,
    *,
    who: str = "",
    view: int = 0,
    began_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> Connection:
    """Connect to the process of rank `other` at `address`, and run the handshake; returns a non-blocking socket.

    `tls` is the calling end's context. Errors call the other end `who`, or by its rank. `view` is the one in
    which a newcomer comes in, and else 0. `timeout_s` runs from `began_s`, if that is given.
    """
    host, port = address[:2]  # IPv6 has more
    who = f"{who or f'rank {other}'} at {host}:{port}"
    deadline_s = (clock() if began_s is None else began_s) + timeout_s

    def begin(certified: Rank | None) -> Steps:  # TLS has checked the name in the certificate
        return call(me, other, secret, token_bytes(NONCE_BYTES), view)

    for _ in range(CALLS_MAX):
        plain = new_socket(host)
        sock: Connection = plain
        try:
            plain.settimeout(max(1e-3, deadline_s - clock()))
            plain.connect((host, port))
            if tls is not None:
                sock = TlsSocket(tls, plain, certified_name(other))
            Candidate(sock, begin, deadline_s).advance()
        except (HandshakeRefused, OSError) as error:
            sock.close()
            _raise_unless_it_hung_up(who, error, timeout_s)
        else:
            sock.setblocking(False)
            return sock
    raise TransportError(
        f"{who} hung up on rank {me} {CALLS_MAX} times in the middle of the handshake.\n"
        "  It refused this process, or ended: what it printed last says why."
    )


def _raise_unless_it_hung_up(who: str, error: HandshakeRefused | OSError, timeout_s: float) -> None:
    if isinstance(error, ConnectionRefusedError):
        raise NodeLost(f"{who} does not listen any more.\n  What it printed last may say why.") from error
    if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
        raise TransportError(
            f"{who} did not answer within {timeout_s:g} s.\n  Is it still starting, or stuck?"
        ) from error
    if not isinstance(error, HandshakeRefused):
        raise TransportError(f"{who} cannot be reached: {error}.") from error
    if error.reason not in ("truncated", "broken off"):
        raise TransportError(f"{who} did not prove to belong to this job: {error}") from error
