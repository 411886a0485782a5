"""The TCP transport: a mesh of processes that proved who they are, and strangers who get nowhere."""

import select
import socket
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from support.network.meshes import LAYOUT, NUM_ELEMENTS, SECRET, SMALL, Mesh, exchange, frame, polled_until, together

from weft.core.errors import ConfigError, NodeLost, TransportError
from weft.core.names import Part
from weft.transports.certificates import Authority, contexts
from weft.transports.dialing import CALLS_MAX
from weft.transports.door import listen
from weft.transports.frames import Header
from weft.transports.link import GOODBYE
from weft.transports.tcp import TURN_FRAMES_MAX, TcpTransport


def raised_by_polling(transport: TcpTransport) -> str:
    with pytest.raises((TransportError, NodeLost)) as raised:
        polled_until(transport, lambda: False)
    return f"{type(raised.value).__name__}: {raised.value}"


def test_every_process_reaches_every_other() -> None:
    mesh = Mesh(3)
    for source in range(3):
        for target in {0, 1, 2} - {source}:
            mesh.transports[source].send(target, *frame(source, target, clock=source))
    taken = exchange(mesh.transports, 6)
    mesh.close()
    assert {place: sorted(it.source for it, _, _ in got) for place, got in taken.items()} == {
        0: [1, 2],
        1: [0, 2],
        2: [0, 1],
    }


@pytest.mark.parametrize("name", ["mesh", "encrypted"])
def test_data_bodies_and_parts_come_as_they_were_sent(name: str, request: pytest.FixtureRequest) -> None:
    transports = request.getfixturevalue(name).transports
    start, stop = Part(1, 3).bounds(10)
    part = SMALL[start:stop]
    header = Header(1, 1, 0, 7, 0, (1, 3), 0.5, 4, 3, part.nbytes, crc32(b"abc"))
    transports[1].send(0, header.pack(), b"abc", part.data)
    transports[1].send(0, *frame(1, 0, clock=8, data=b"only data", body=None))
    nothing = header._replace(clock=9, part=(0, 20), body_bytes=0)
    transports[1].send(0, nothing.pack(), b"abc", part[:0].data)
    taken = exchange(transports, 3)[0]
    assert [(it.clock, data, body) for it, data, body in taken] == [
        (7, b"abc", part.tobytes()),
        (8, b"only data", b""),
        (9, b"abc", b""),
    ]
    assert taken[0][0] == header


@pytest.mark.parametrize("name", ["mesh", "encrypted"])
def test_large_bodies_pass_each_other_in_order_and_keep_their_values(name: str, request: pytest.FixtureRequest) -> None:
    transports = request.getfixturevalue(name).transports
    body = np.empty(NUM_ELEMENTS, np.float32)
    for clock in range(3):
        for source in range(2):
            body[:] = 10 * source + clock
            transports[source].send(1 - source, *frame(source, 1 - source, clock, body=body))
            transports[source].send(1 - source, *frame(source, 1 - source, clock, data=b"between", body=None))
    body[:] = -1
    assert transports[0].outbox_bytes() == transports[0].outbox_bytes(1) > 0
    taken = exchange(transports, 12)
    for target in range(2):
        assert [it.clock for it, _, _ in taken[target]] == [0, 0, 1, 1, 2, 2]
        for it, _, raw in taken[target][::2]:
            assert np.all(np.frombuffer(raw, np.float32) == 10 * it.source + it.clock)
    assert [transport.outbox_bytes() for transport in transports] == [0, 0]


def test_copies_and_bytes_are_counted(mesh: Mesh) -> None:
    transport = mesh.transports[0]
    transport.send(1, *frame(0, 1))
    assert (transport.bytes_sent, transport.num_copies) == (104, 0)
    for _ in range(3):
        transport.send(1, *frame(0, 1, body=np.zeros(NUM_ELEMENTS, np.float32)))
    assert transport.num_copies in (2, 3)  # the first may fit
    exchange(mesh.transports, 4)
    assert transport.bytes_sent == 104 + 3 * (64 + 4 * NUM_ELEMENTS)


def test_a_busy_connection_leaves_room_for_the_others(mesh: Mesh) -> None:
    for clock in range(3 * TURN_FRAMES_MAX):
        mesh.transports[1].send(0, *frame(1, 0, clock, body=None))
    counts: list[Any] = []
    while sum(counts) < 3 * TURN_FRAMES_MAX:
        mesh.transports[0].wait(1.0)
        counts.append(mesh.transports[0].poll(lambda it: None))
    assert max(counts) <= TURN_FRAMES_MAX


def test_tls_leaves_nothing_decrypted_that_no_selector_knows_of(encrypted: Mesh) -> None:
    zero, one = encrypted.transports
    many = b"".join(frame(1, 0, clock, body=None)[0] for clock in range(200))
    one._links[0].send((many,))  # all in one record
    num_frames = 0
    while num_frames < 200:
        assert select.select(zero.fileno_set(), [], [], 5)[0] == zero.fileno_set()
        num_frames += zero.poll(lambda it: None)
    assert num_frames == 200
    assert select.select(zero.fileno_set(), [], [], 0)[0] == []


def test_a_frame_may_be_answered_while_it_is_handed_over(mesh: Mesh) -> None:
    zero, one = mesh.transports
    zero.send(1, *frame(0, 1, clock=5))
    polled: list[int] = []
    while not polled:
        one.poll(lambda it: one.send(0, *frame(1, 0, clock=it.header.clock + 1)))
        zero.poll(lambda it: polled.append(it.header.clock))
    assert polled == [6]


def test_descriptors_become_readable_when_something_comes(mesh: Mesh) -> None:
    zero, one = mesh.transports
    assert select.select(zero.fileno_set(), [], [], 0)[0] == []
    zero.wait(0.0)
    one.send(0, *frame(1, 0))
    assert select.select(zero.fileno_set(), [], [], 5)[0] == zero.fileno_set()
    zero.wait(60.0)
    assert exchange([zero], 1)[0][0][2] == SMALL.tobytes()


def test_a_goodbye_is_no_loss_and_comes_after_the_last_frame(mesh: Mesh) -> None:
    zero, one = mesh.transports
    one.send(0, *frame(1, 0, clock=3))
    one.close()
    taken: list[int] = []
    while 1 not in zero.gone:
        zero.wait(0.01)
        zero.poll(lambda it: taken.append(it.header.clock))
    assert taken == [3]
    assert zero.gone == {1: "it has said goodbye"}
    with pytest.raises(NodeLost) as lost:
        zero.send(1, *frame(0, 1))
    assert str(lost.value) == "a frame is for rank 1, but it has said goodbye."
    one.close()


def test_two_may_close_with_full_outboxes_at_the_same_time() -> None:
    mesh = Mesh(2)
    for source in range(2):
        for _ in range(3):
            body = np.zeros(NUM_ELEMENTS, np.float32)
            mesh.transports[source].send(1 - source, *frame(source, 1 - source, body=body))
    together([transport.close for transport in mesh.transports])
    assert [transport.gone for transport in mesh.transports] != [{}, {}]


def test_an_end_without_a_goodbye_is_a_lost_node(mesh: Mesh) -> None:
    mesh.transports[1].abort()
    assert raised_by_polling(mesh.transports[0]) == (
        "NodeLost: rank 1 is gone: its connection ended without a goodbye, between frames.\n"
        "  What it printed last may say why."
    )
    with pytest.raises(NodeLost) as lost:
        mesh.transports[0].send(1, *frame(0, 1))
    assert str(lost.value) == "a frame is for rank 1, but it is gone."
    assert mesh.transports[0].poll(lambda it: None) == 0


def test_a_reset_in_the_middle_of_a_frame_is_a_lost_node(mesh: Mesh) -> None:
    zero, one = mesh.transports
    one._links[0].sock.send(frame(1, 0)[0])
    polled_until(zero, lambda: zero._links[1]._header is not None)
    zero.send(1, *frame(0, 1))
    one.abort()  # with something unread
    assert raised_by_polling(zero) == (
        "NodeLost: rank 1 is gone: its connection broke (Connection reset by peer), in the middle of a frame.\n"
        "  What it printed last may say why."
    )


def test_who_was_never_connected_cannot_be_sent_to(mesh: Mesh) -> None:
    with pytest.raises(NodeLost) as lost:
        mesh.transports[0].send(2, *frame(0, 2))
    assert str(lost.value) == "a frame is for rank 2, but there is no connection to it."


NODE_1, NODE_2 = "it goes from node 1 of rank 1 ", "it goes from node 2 of rank 2 "
CAME = "but came from rank 1 to rank 0."
GOOD = Header(1, 1, 0, 0, 0, (0, 0), 1.0, 4, 0, 40, 0)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\0" * 64, "a frame begins with b'\\x00\\x00\\x00\\x00', not b'WEFT': not one of Weft's."),
        (b"WEFT\x09" + bytes(59), "a frame is of version 9, but this is version 2."),
        (GOOD.pack()[:-4] + bytes(4), "a frame's header does not match its checksum."),
        (GOOD._replace(body_bytes=99).pack(), "a frame announces 99 bytes for bucket 0, but its part 0 of 0 has 40."),
        (GOOD._replace(itemsize=2).pack(), "a frame has numbers of 2 bytes for bucket 0, which has those of 4."),
        (GOOD._replace(part=(1, 2)).pack(), "a frame announces 40 bytes for bucket 0, but its part 1 of 2 has 20."),
        (GOOD._replace(data_bytes=1).pack() + bytes(41), "a frame's data does not match its checksum."),
        (GOOD._replace(source=2).pack(), NODE_2 + "to node 0 of rank 0, " + CAME),
        (GOOD._replace(target=2).pack(), NODE_1 + "to node 2 of rank 2, " + CAME),
        (GOODBYE[:-1] + b"\0", "a frame's header does not match its checksum."),
    ],
    ids=["magic", "version", "checksum", "length", "dtype", "shape", "data", "source", "target", "goodbye"],
)
def test_a_bad_frame_of_a_known_process_names_it(mesh: Mesh, raw: bytes, message: str) -> None:
    zero, one = mesh.transports
    one._links[0].send((raw,))
    assert raised_by_polling(zero) == f"TransportError: rank 1 sent a bad frame: {message}"
    assert zero.refused == {"bad frame": 1}
    assert zero.gone == {1: "it sent a bad frame"}
    assert zero.poll(lambda it: None) == 0


def process(rank: int, listeners: list[socket.socket], **changes: Any) -> TcpTransport:
    """A process of a run of those who listen."""
    options: dict[str, Any] = {"addresses": [listener.getsockname() for listener in listeners], "secret": SECRET}
    options |= {"rank_of": lambda node: node, "connect_timeout_s": 0.05} | changes
    return TcpTransport(rank, len(listeners), listeners[rank], layout=LAYOUT, **options)


def raised_by_connecting(transport: TcpTransport) -> str:
    with pytest.raises((TransportError, NodeLost)) as raised:
        transport.connect()
    transport.close()
    return f"{type(raised.value).__name__}: {raised.value}"


def test_who_waits_in_vain_says_for_whom_and_whom_it_refused() -> None:
    listeners = [listen("127.0.0.1") for _ in range(3)]
    with socket.create_connection(listeners[0].getsockname()) as stranger:
        stranger.send(bytes(64))
        message = raised_by_connecting(process(0, listeners))
    assert message == (
        "TransportError: rank 0 waited 0.05 s for ranks 1, 2 to connect.\n"
        "  Look at what they printed last. Connections refused meanwhile: wrong magic (1)."
    )
    listeners[1].close()
    listeners[2].close()


def test_a_process_that_does_not_answer_is_named() -> None:
    listeners = [listen("127.0.0.1") for _ in range(2)]
    host, port = listeners[0].getsockname()
    assert raised_by_connecting(process(1, listeners)) == (
        f"TransportError: rank 0 at {host}:{port} did not answer within 0.05 s.\n  Is it still starting, or stuck?"
    )
    listeners[0].close()


def test_a_process_that_does_not_listen_is_lost() -> None:
    listeners = [listen("127.0.0.1") for _ in range(2)]
    host, port = listeners[0].getsockname()
    transport = process(1, listeners)
    listeners[0].close()
    assert raised_by_connecting(transport) == (
        f"NodeLost: rank 0 at {host}:{port} does not listen any more.\n  What it printed last may say why."
    )


def test_a_process_with_another_secret_is_refused_at_both_ends() -> None:
    listeners = [listen("127.0.0.1") for _ in range(2)]
    zero, one = (
        process(0, listeners, connect_timeout_s=0.5),
        process(1, listeners, secret=b"x" * 32, connect_timeout_s=5),
    )
    host, port = listeners[0].getsockname()
    assert together([partial(raised_by_connecting, each) for each in (one, zero)]) == [
        f"TransportError: rank 0 at {host}:{port} hung up on rank 1 {CALLS_MAX} times in the middle of the handshake.\n"
        "  It refused this process, or ended: what it printed last says why.",
        "TransportError: rank 0 waited 0.5 s for rank 1 to connect.\n"
        f"  Look at what they printed last. Connections refused meanwhile: wrong proof ({CALLS_MAX}).",
    ]


def test_an_answer_without_a_proof_is_not_believed() -> None:
    listeners = [listen("127.0.0.1") for _ in range(2)]
    host, port = listeners[0].getsockname()
    transport = process(1, listeners, connect_timeout_s=5)

    def impostor() -> None:
        listeners[0].setblocking(True)
        sock, _ = listeners[0].accept()
        with sock:
            sock.sendall(b"WEFTHAND\x02" + bytes(64))
            while sock.recv(1):
                pass

    _, message = together([impostor, partial(raised_by_connecting, transport)])  # type: ignore[arg-type, var-annotated]
    listeners[0].close()
    assert message == (
        f"TransportError: rank 0 at {host}:{port} did not prove to belong to this job: "
        "wrong proof: its secret is not this job's, or an old conversation was replayed."
    )


def test_an_answerer_of_another_job_is_not_believed_under_tls() -> None:
    listeners = [listen("127.0.0.1") for _ in range(2)]
    zero, one = (
        process(rank, listeners, tls=contexts(Authority().issue(rank)), connect_timeout_s=0.5) for rank in range(2)
    )
    ours, theirs = together([partial(raised_by_connecting, each) for each in (one, zero)])
    assert "did not prove to belong to this job: wrong certificate: its certificate is not of this job: " in ours
    assert "Connections refused meanwhile: wrong certificate (1)." in theirs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secret": b"short"}, "the job's secret has 5 bytes, not 32.\n  Use secrets.token_bytes."),
        ({"addresses": [("127.0.0.1", 1)] * 3}, "there are 1 processes, but 3 addresses.\n  Give one for each."),
        (
            {"addresses": [("10.0.0.7", 4711)]},
            "rank 0 is at '10.0.0.7', off loopback, where connections must be encrypted.\n"
            "  Pass tls=contexts(authority.issue(rank)), or listen on 127.0.0.1.",
        ),
        ({"addresses": [("example", 1)]}, "'example' is not an IP address.\n  Use one such as 127.0.0.1."),
    ],
)
def test_a_run_that_cannot_be_safe_is_refused_before_it_starts(changes: dict[str, Any], message: str) -> None:
    with listen("127.0.0.1") as listener, pytest.raises(ConfigError) as refused:
        process(0, [listener], **changes)
    assert str(refused.value) == message


def test_only_a_network_of_wefts_own_needs_no_encryption_off_loopback() -> None:
    with listen("127.0.0.1") as listener:
        with pytest.raises(ConfigError, match="must be encrypted"):
            process(0, [listener], addresses=[("10.0.0.7", 4711)], is_private=False)
        own = process(0, [listener], addresses=[("10.0.0.7", 4711)], is_private=True)
        assert own.gone == {}
        own.abort()


@pytest.mark.parametrize(
    ("host", "message"),
    [
        (".".join("0000"), "'0.0.0.0' would listen on all interfaces.\n  Use the address of one, such as 127.0.0.1."),
        (
            "192.0.2.1",
            "cannot listen on 192.0.2.1:0: [Errno 99] Cannot assign requested address.\n"
            "  Use an address of this machine.",
        ),
        ("", "'' is not an IP address.\n  Use one such as 127.0.0.1."),
    ],
)
def test_where_nobody_should_listen_nobody_does(host: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        listen(host)
    assert str(refused.value) == message


def test_a_process_alone_is_connected_at_once() -> None:
    transport = process(0, [listen("127.0.0.1")])
    transport.connect()
    assert transport.poll(lambda it: None) == 0
    transport.close()


def test_only_those_that_have_no_better_way_are_connected_and_others_are_refused() -> None:
    listeners = [listen("127.0.0.1") for _ in range(3)]
    addresses = [listener.getsockname() for listener in listeners]
    others = {0: [2], 1: [2], 2: [0, 1]}
    transports = [
        TcpTransport(
            rank, 3, listener, addresses, SECRET, LAYOUT, rank_of=lambda node: node, others=others[rank],
            connect_timeout_s=2.0,
        )
        for rank, listener in enumerate(listeners)
    ]  # fmt: skip
    together([transport.connect for transport in transports])
    try:
        assert [sorted(transport._links) for transport in transports] == [[2], [2], [0, 1]]
        with pytest.raises(NodeLost, match="there is no connection to it"):
            transports[0].send(1, *frame(0, 1))
        assert transports[0]._objection(None, 1, 0) == "wrong rank"
    finally:
        for transport in transports:
            transport.abort()
