"""The seam between the runtime and the wire."""

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from threading import Event
from typing import Any

import numpy as np
import pytest
from support.network.meshes import LAYOUT, NUM_ELEMENTS, SECRET, Mesh, exchange, frame, polled_until, together

from weft.core.errors import TransportError
from weft.transports.door import listen
from weft.transports.mixed import MixedTransport
from weft.transports.rings import RingTransport
from weft.transports.tcp import TcpTransport
from weft.transports.transport import Frame, Transport

COUNTERS = ["bytes_sent", "num_copies", "refused"]
CALLS = [
    "send",
    "take_back",
    "receive_into",
    "poll",
    "forget",
    "reconnect",
    "outbox_bytes",
    "traffic",
    "fileno_set",
    "door_set",
    "is_answering",
    "close",
]


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
    assert survivors.broken == [(0, 1)]
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


def test_what_waits_for_a_lost_process_is_dropped_though_its_connection_stands(survivors: Mesh) -> None:
    zero = survivors.transports[0]
    for _ in range(3):
        zero.send(1, *frame(0, 1, body=np.zeros(NUM_ELEMENTS, np.float32)))
    assert zero.outbox_bytes() > 0
    zero.forget([1])
    assert (zero.outbox_bytes(), zero.gone) == (0, {1: "it is lost"})


def called(mesh: Mesh, callers: Sequence[int], newcomer: int, view: int) -> list[list[int]]:
    """Let these processes connect to a newcomer, which polls meanwhile; whom each did not reach."""
    here, is_done = mesh.transports[newcomer], Event()

    def answer() -> list[list[int]]:
        while not is_done.is_set():
            here.wait(0.01)
            here.poll(lambda it: None)
        return []

    def call() -> list[list[int]]:
        try:
            return [mesh.transports[rank].reconnect(mesh.ports(newcomer), view) for rank in callers]
        finally:
            is_done.set()

    unreached, _ = together([call, answer])
    return unreached


def test_a_newcomer_is_called_by_all_and_what_its_predecessor_left_is_never_taken_for_its_own(survivors: Mesh) -> None:
    zero, one, two = survivors.transports
    one.send(0, *frame(1, 0, clock=3))
    zero.send(1, *frame(0, 1, clock=4))
    one.abort()
    newcomer = survivors.newcomer(1, first_view=2)
    assert called(survivors, [0, 2], 1, view=2) == [[], []]
    assert (zero.gone, two.gone) == ({}, {})
    newcomer.send(0, *frame(1, 0, clock=5))
    zero.send(1, *frame(0, 1, clock=6))
    two.send(1, *frame(2, 1, clock=7))
    taken = exchange(survivors.transports, 3)
    assert {place: sorted(header.clock for header, _, _ in came) for place, came in taken.items()} == {
        0: [5],
        1: [6, 7],
        2: [],
    }


def test_newcomers_of_one_view_connect_to_each_other_when_they_are_told_it(survivors: Mesh) -> None:
    for lost in survivors.transports[1:]:
        lost.abort()
    newcomers = [survivors.newcomer(rank, first_view=3) for rank in (1, 2)]
    assert called(survivors, [0], 1, view=4) == called(survivors, [0], 2, view=4) == [[]]
    together([partial(each.reconnect, survivors.ports(1, 2), 4) for each in newcomers])
    newcomers[0].send(2, *frame(1, 2, clock=1))
    newcomers[1].send(1, *frame(2, 1, clock=2))
    newcomers[1].send(0, *frame(2, 0, clock=3))
    taken = exchange(survivors.transports, 3)
    assert [[header.clock for header, _, _ in taken[rank]] for rank in range(3)] == [[3], [2], [1]]


def test_a_newcomer_that_cannot_be_reached_is_named(survivors: Mesh) -> None:
    survivors.transports[1].abort()
    survivors.newcomer(1, first_view=2).abort()
    assert survivors.transports[0].reconnect(survivors.ports(1), 2) == [1]


def test_a_newcomer_says_which_other_one_does_not_call_it(survivors: Mesh) -> None:
    newcomer = survivors.newcomer(1, first_view=2)
    with pytest.raises(TransportError, match=r"rank 1 waited 2 s for rank 2 to connect"):
        newcomer.reconnect(survivors.ports(1, 2), 2)


def test_calls_for_another_view_or_by_a_process_that_has_been_followed_by_another_are_refused(survivors: Mesh) -> None:
    survivors.transports[1].abort()
    newcomer = survivors.newcomer(1, first_view=5)
    assert newcomer._objection(None, 0, 4) == "wrong view", "it is for the newcomer that was to come before"
    assert newcomer._objection(None, 0, 6) is None
    assert newcomer._objection(None, 0, 5) == "duplicate rank", "it has been replaced by the one that called for view 6"
    newcomer.reconnect(survivors.ports(1), 6)
    assert newcomer._objection(None, 2, 7) == "wrong view", "it is there already"
    member = survivors.transports[0]
    assert [member._objection(None, 2, view) for view in (0, 6)] == ["duplicate rank", "wrong view"]


@pytest.mark.parametrize("looks", [0, 3], ids=["known at once", "known after some calls"])
def test_nobody_waits_for_a_process_that_is_lost_before_all_are_connected(looks: int) -> None:
    listeners = [listen("127.0.0.1") for _ in range(3)]
    addresses = [listener.getsockname() for listener in listeners]
    listeners[1].close()
    broken: list[int] = []
    living = [
        TcpTransport(
            rank, 3, listeners[rank], addresses, SECRET, LAYOUT,
            rank_of=lambda node: node, on_broken=broken.append, connect_timeout_s=5.0,
        )
        for rank in (0, 2)
    ]  # fmt: skip
    looked = [count(), count()]

    def connect(which: int) -> None:
        living[which].connect(lambda: [1] if next(looked[which]) >= looks else [])

    together([partial(connect, which) for which in range(2)])
    living[1].send(0, *frame(2, 0, clock=3))
    living[0].send(1, *frame(0, 1))
    assert exchange(living, 1)[0][0][0].clock == 3
    for each in living:
        each.close()


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
