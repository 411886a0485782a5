"""What travels between a host agent and the controller, and what ends their connection."""

import selectors
import socket
from dataclasses import dataclass, field
from typing import Any

import pytest

from weft.engines.hosts.agent_link import PACKET_BYTES_MAX, AgentLink, Kill, Relayed, Tell, Values, WorkerMessage
from weft.runtime.channel import packed
from weft.runtime.messages import Halt, StepTold
from weft.transports.framed_socket import LENGTH


@dataclass
class Ends:
    """Both ends of a link, in one thread."""

    selector: selectors.DefaultSelector
    mine: AgentLink
    theirs: AgentLink
    heard: list[Relayed] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    raw: socket.socket | None = None

    def turn(self, times: int = 50) -> None:
        for _ in range(times):
            for key, _ in self.selector.select(0):
                key.data()


@pytest.fixture
def ends():  # type: ignore[no-untyped-def]
    listener = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    listener.close()
    for sock in (one, other):
        sock.setblocking(False)
    with selectors.DefaultSelector() as selector:
        pair = Ends(selector, None, None)  # type: ignore[arg-type]
        pair.mine = AgentLink(one, selector, pair.heard.append, pair.ended.append)
        pair.theirs = AgentLink(other, selector, pair.heard.append, pair.ended.append)
        pair.raw = one
        yield pair
        pair.mine.close()
        pair.theirs.close()


def test_messages_come_whole_and_in_order(ends: Ends) -> None:
    said: list[Any] = [WorkerMessage(3, StepTold(7)), Tell(1, Halt()), Kill()]
    for message in said:
        ends.mine.send(message)
    ends.turn()
    assert ends.heard == said


def test_what_the_socket_does_not_take_at_once_waits(ends: Ends) -> None:
    values = [Values(place << 20, bytes([place]) * (1 << 20)) for place in range(12)]
    for message in values:
        ends.mine.send(message)
    assert ends.mine.waiting_bytes > 0
    ends.turn(5000)
    assert ends.heard == values
    assert ends.mine.waiting_bytes == 0


def test_an_end_is_told_once_and_nothing_is_said_to_it(ends: Ends) -> None:
    ends.theirs.close()
    ends.turn()
    assert ends.ended == ["its connection ended"]
    ends.mine.send(Kill())
    ends.turn()
    assert ends.ended == ["its connection ended"]
    assert ends.mine.is_closed


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (LENGTH.pack(PACKET_BYTES_MAX + 1), f"a message of {PACKET_BYTES_MAX + 1} bytes was announced"),
        (LENGTH.pack(3) + b"abc", "it sent an invalid message"),
        (packed(Kill())[:-1] + b"\xff", "it sent an invalid message"),
    ],
    ids=["too long", "no message", "a message with a flaw"],
)
def test_what_is_no_message_ends_the_connection(ends: Ends, raw: bytes, why: str) -> None:
    assert ends.raw is not None
    ends.raw.send(raw)
    ends.turn()
    assert ends.theirs.is_closed
    assert why in ends.ended[0]
    assert ends.heard == []
