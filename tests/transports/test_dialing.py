"""One connection to a process of the job; whoever is not of it gets none. More stands in test_tcp.py."""

import selectors
import socket
from secrets import token_bytes
from threading import Thread
from time import monotonic

import pytest

from weft.core.errors import ConfigError, NodeLost, TransportError
from weft.transports.dialing import check_loopback, dial, to_ip
from weft.transports.door import Door, listen
from weft.transports.handshake import NONCE_BYTES, answer

SECRET, OTHER = bytes(32), bytes(31) + b"x"
ME, HEAD = 1, 0


def answering(listener: socket.socket, secret: bytes) -> Thread:
    """Somebody who answers one call as rank 0, or refuses three."""

    def serve() -> None:
        with selectors.DefaultSelector() as selector:
            door = Door(
                listener,
                lambda certified: answer(HEAD, lambda rank, view: None, secret, token_bytes(NONCE_BYTES)),
                None,
                selector,
                monotonic,
            )
            deadline_s = monotonic() + 10
            while monotonic() < deadline_s and sum(door.refused.values()) < 3:
                for key, _ in selector.select(0.05):
                    if isinstance(key.data, Door):
                        key.data.accept()
                    elif door.advance(key.data) is not None:
                        key.data.sock.close()
                        door.close()
                        return
            door.close()

    thread = Thread(target=serve)
    thread.start()
    return thread


def test_who_knows_the_secret_is_connected_and_blocks_no_more() -> None:
    listener = listen("127.0.0.1")
    address = listener.getsockname()
    thread = answering(listener, SECRET)
    with dial(address, ME, HEAD, SECRET, None, 5.0) as sock:
        assert not sock.getblocking()
        assert sock.getpeername() == address
    thread.join()


def test_who_does_not_is_told_whom_it_could_not_convince() -> None:
    listener = listen("127.0.0.1")
    address = listener.getsockname()
    thread = answering(listener, SECRET)
    with pytest.raises(TransportError, match=f"the head at 127.0.0.1:{address[1]} hung up on rank 1 3 times"):
        dial(address, ME, HEAD, OTHER, None, 5.0, who="the head")
    thread.join()


def test_nobody_listens() -> None:
    listener = listen("127.0.0.1")
    address = listener.getsockname()
    listener.close()
    with pytest.raises(NodeLost, match=f"rank 0 at 127.0.0.1:{address[1]} does not listen any more"):
        dial(address, ME, HEAD, SECRET, None, 5.0)


def test_a_name_is_no_address() -> None:
    with pytest.raises(ConfigError, match="'mill' is not an IP address"):
        to_ip("mill")
    assert to_ip("::1").is_loopback


def test_plain_connections_are_for_loopback_only() -> None:
    check_loopback([(0, ("127.0.0.1", 1)), (1, ("::1", 2))])
    with pytest.raises(ConfigError, match=r"rank 1 is at '10\.0\.0\.7', off loopback"):
        check_loopback([(0, ("127.0.0.1", 1)), (1, ("10.0.0.7", 2))])
