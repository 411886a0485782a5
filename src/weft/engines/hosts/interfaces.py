"""Chooses the address of this host to which others connect: WEFT_INTERFACE, or that of the route to the rendezvous."""

import fcntl
import socket
import struct

from weft.core.errors import ConfigError

VARIABLE = "WEFT_INTERFACE"
SIOCGIFADDR = 0x8915


def own_address(named: str | None, rendezvous: str, port: int) -> str:
    """The IP address of the interface `named` (or `named` itself, if it is an address).

    Without `named`, the source address that the kernel's routing chooses for `rendezvous`.
    """
    if named:
        return _address_of(named)
    try:
        family, _, _, _, goal = socket.getaddrinfo(rendezvous, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(goal)  # connecting a UDP socket sends nothing: it only makes the kernel choose a route
            return str(sock.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"there is no way from this host to '{rendezvous}', where the run's processes meet: "
            f"{error.strerror or error}.\n  Check MASTER_ADDR (torchrun's --rdzv-endpoint) and this host's network."
        ) from error


def interface_of(address: str) -> str:
    """The name of this host's interface with the IPv4 `address`; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return next((name for _, name in socket.if_nameindex() if _first_address(sock, name) == address), "")


def _first_address(sock: socket.socket, name: str) -> str | None:
    try:
        answer = fcntl.ioctl(sock, SIOCGIFADDR, struct.pack("256s", name.encode()))
    except OSError:  # the interface has no IPv4 address
        return None
    return socket.inet_ntoa(answer[20:24])


def _address_of(named: str) -> str:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, named)
        except OSError:
            continue
        return named
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, SIOCGIFADDR, struct.pack("256s", named.encode()[:15]))
    except OSError as error:
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise ConfigError(
            f"{VARIABLE} is '{named}', which is neither an address nor an interface with one.\n"
            f"  This host has: {names}."
        ) from error
    return socket.inet_ntoa(answer[20:24])
