"""The seam between the runtime and the wire."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from support.network.meshes import Mesh, exchange, frame, polled_until

from weft.core.errors import TransportError
from weft.transports.mixed import MixedTransport
from weft.transports.rings import RingTransport
from weft.transports.tcp import TcpTransport
from weft.transports.transport import Frame, Transport

COUNTERS = ["bytes_sent", "num_copies", "refused"]
CALLS = ["send", "poll", "forget", "outbox_bytes", "traffic", "fileno_set", "close"]


@pytest.mark.parametrize("kind", [RingTransport, TcpTransport, MixedTransport])
@pytest.mark.parametrize("call", CALLS)
def test_every_transport_is_called_alike(kind: Any, call: str) -> None:
    wanted, given = (inspect.signature(getattr(each, call)).parameters for each in (Transport, kind))
    assert list(given) == list(wanted)
    assert [each.default for each in given.values()] == [each.default for each in wanted.values()]


def test_all_calls_of_the_seam_are_compared() -> None:
    assert [name for name in vars(Transport) if not name.startswith("_")] == [*COUNTERS, *CALLS]


def test_a_frame_is_header_data_and_body_and_says_which_process_sent_it() -> None:
    assert Frame._fields == ("header", "data", "body", "sender")


@pytest.fixture
def survivors() -> Iterator[Mesh]:
    """A mesh whose processes go on without those that are gone."""
    mesh = Mesh(3, survives=True)
    yield mesh
    mesh.close()


def test_who_survives_goes_on_without_a_lost_node_and_drops_what_is_for_it(survivors: Mesh) -> None:
    zero, one, two = survivors.transports
    one.send(0, *frame(1, 0, clock=3))
    one.abort()
    taken: list[int] = []
    while 1 not in zero.gone:
        zero.wait(0.01)
        zero.poll(lambda it: taken.append(it.header.clock))
    assert taken == [3], "what it had sent before comes first"
    assert zero.gone == {1: "it is gone"}
    sent = zero.bytes_sent
    zero.send(1, *frame(0, 1))
    assert zero.bytes_sent == sent
    zero.send(2, *frame(0, 2, clock=4))
    assert exchange([two], 1)[0][0][0].clock == 4


def test_who_survives_a_reset_in_the_middle_of_a_frame_takes_nothing_of_it(survivors: Mesh) -> None:
    zero, one, _ = survivors.transports
    one._links[0].sock.send(frame(1, 0)[0])
    polled_until(zero, lambda: zero._links[1]._header is not None)
    zero.send(1, *frame(0, 1))
    one.abort()
    polled_until(zero, lambda: 1 in zero.gone)
    assert zero.gone == {1: "it is gone"}


def test_frames_of_nodes_that_may_be_moved_are_taken_from_any_process_and_others_are_not() -> None:
    mesh = Mesh(2, rank_of=lambda node: None if node == 2 else node)
    zero, one = mesh.transports
    one.send(0, *frame(2, 0, clock=5))
    one.send(0, *frame(1, 2, clock=6))
    assert [header.clock for header, _, _ in exchange([zero], 2)[0]] == [5, 6]
    one.send(0, *frame(0, 2))
    with pytest.raises(TransportError, match="from node 0 of rank 0 to node 2 of rank None, but came from rank 1"):
        polled_until(zero, lambda: False)
    mesh.close()
