"""Shared-memory rings between the processes of a host."""

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.errors import TransportError
from weft.core.names import Bucket
from weft.transports.bells import NUM_BELLS, SCRIPT, Bells
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Header, Layout
from weft.transports.rings import FRAMES_PER_POLL, LINE, WORDS_BYTES, Frame, RingTransport, ring_bytes

SIZES = (1, 15, 16, 1000, 7_500, 12_500, 15_000, 20_000)
LAYOUT = Layout(num_kinds=2, num_nodes=3, buckets=tuple(Bucket(size) for size in SIZES))
LARGEST = len(SIZES) - 1
Taken = tuple[int, bytes, bytes]


class Host:
    """The processes of a host, all in this one; every script listens to its bell."""

    def __init__(self, num_processes: int = 2) -> None:
        self.fd = os.memfd_create("rings")
        self.eventfds = [[os.eventfd(0, os.EFD_NONBLOCK) for _ in range(NUM_BELLS)] for _ in range(num_processes)]
        words = memoryview(bytearray(8 * 8 * num_processes)).cast("q")
        places = [8 * rank for rank in range(num_processes)]
        self.bells = [Bells(rank, words, places, self.eventfds) for rank in range(num_processes)]
        self.transports = [
            RingTransport(self.fd, rank, num_processes, LAYOUT, bells) for rank, bells in enumerate(self.bells)
        ]
        self.taken: list[list[Taken]] = [[] for _ in range(num_processes)]
        self.num_sent = 0

    def send(self, source: int, target: int, bucket: int | None, data: bytes = b"") -> Taken:
        """Send a frame whose clock is its number; what should come of it."""
        self.num_sent += 1
        body = None if bucket is None else np.full(SIZES[bucket], self.num_sent, np.float32)
        header = framed(source, target, self.num_sent, bucket, data)
        self.transports[source].send(target, header, data, None if body is None else body.data)
        sent = (self.num_sent, data, b"" if body is None else body.tobytes())
        if body is not None:
            body[:] = -1.0  # the value of then was sent, not the memory (rule 4 of docs/architecture.md)
        return sent

    def poll(self, rank: int) -> int:
        taken = self.taken[rank]
        return self.transports[rank].poll(lambda it: taken.append((it.header.clock, bytes(it.data), bytes(it.body))))

    def is_rung(self, rank: int) -> bool:
        return bool(select.select([self.bells[rank].fileno(SCRIPT)], [], [], 0)[0])

    def close(self) -> None:
        for eventfd in (each for pair in self.eventfds for each in pair):
            os.close(eventfd)
        os.close(self.fd)


def framed(source: int, target: int, clock: int, bucket: int | None, data: bytes = b"") -> bytes:
    where, itemsize, size = (-1, 0, 0) if bucket is None else (bucket, 4, 4 * SIZES[bucket])
    return Header(1, source, target, clock, where, (0, 0), 1.0, itemsize, len(data), size, crc32(data)).pack()


@contextmanager
def opened(num_processes: int = 2) -> Iterator[Host]:
    host = Host(num_processes)
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def host() -> Iterator[Host]:
    with opened() as made:
        yield made


def fill(host: Host, source: int = 0, target: int = 1) -> list[Taken]:
    """Frames until one has to wait."""
    sent = []
    while not host.transports[source].outbox_bytes(target):
        sent.append(host.send(source, target, LARGEST))
    return sent


def test_frames_come_in_the_order_in_which_they_were_sent_with_data_and_body(host: Host) -> None:
    sent = [host.send(0, 1, bucket, data) for bucket, data in [(3, b"a"), (None, b""), (0, b"b" * 200), (None, b"c")]]
    assert host.poll(1) == 4
    assert host.taken[1] == sent
    assert host.poll(1) == 0
    assert host.taken[0] == []


@given(
    turns=st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, 1), st.sampled_from([None, *range(len(SIZES))]), st.integers(0, 300)
        ),
        max_size=60,
    )
)
def test_whatever_is_sent_and_read_when_nothing_is_lost_changed_or_overtaken(
    turns: list[tuple[int, int, int | None, int]],
) -> None:
    """Frames of random sizes go round the ring many times; readers poll now and then."""
    with opened(3) as host:
        sent: dict[tuple[int, int], list[Taken]] = {}
        for source, which, bucket, size in turns:
            target = (source + 1 + which) % 3
            sent.setdefault((source, target), []).append(host.send(source, target, bucket, bytes(size)))
            if size % 4 == 0:
                host.poll(size % 3)
        while sum(host.poll(rank) for rank in range(3)):
            pass
        assert all(transport.outbox_bytes() == 0 for transport in host.transports)
        for (_, target), frames in sent.items():
            numbers = {number for number, _, _ in frames}
            assert [frame for frame in host.taken[target] if frame[0] in numbers] == frames
        assert sum(map(len, host.taken)) == len(turns)


@pytest.mark.parametrize("first", range(len(SIZES)))
def test_the_largest_frame_fits_wherever_the_ring_stands(host: Host, first: int) -> None:
    for _ in range(40):
        host.send(0, 1, first, b"d" * 37)
        host.poll(1)
        host.send(0, 1, LARGEST, b"d" * DATA_BYTES_MAX)
        assert host.transports[0].outbox_bytes() == 0
        assert host.poll(1) == 1
    assert len(host.taken[1]) == 80


def test_what_finds_no_room_waits_in_the_outbox_and_later_frames_do_not_overtake_it(host: Host) -> None:
    sent = fill(host)
    sent.append(host.send(0, 1, None, b"small enough to fit"))
    assert host.transports[0].outbox_bytes() == host.transports[0].outbox_bytes(1) == 4 * SIZES[LARGEST]
    for _ in range(2):
        host.poll(1)
        host.poll(0)
    host.poll(1)
    assert host.taken[1] == sent
    assert host.transports[0].outbox_bytes() == 0


def test_a_frame_that_begins_at_the_start_again_does_not_lie_upon_one_that_nobody_has_read(host: Host) -> None:
    """The end that it leaves empty counts as room that it takes."""
    sent = [host.send(0, 1, SIZES.index(7_500))]
    host.poll(1)
    sent += [host.send(0, 1, SIZES.index(size)) for size in (20_000, 15_000, 12_500)]
    assert host.transports[0].outbox_bytes() == 50_000
    host.poll(1)
    host.poll(0)
    host.poll(1)
    assert host.taken[1] == sent


def test_both_may_send_more_than_fits_without_waiting_for_each_other(host: Host) -> None:
    sent = [[host.send(rank, 1 - rank, LARGEST) for _ in range(10)] for rank in (0, 1)]
    for _ in range(20):
        host.poll(0)
        host.poll(1)
    assert host.taken == [sent[1], sent[0]]


def test_who_sleeps_is_woken_by_a_frame(host: Host) -> None:
    host.send(0, 1, 0)
    assert not host.is_rung(1)
    host.bells[1].listen(SCRIPT)
    host.send(0, 1, 0)
    assert host.is_rung(1)


def test_who_waits_for_room_is_woken_when_there_is_some_and_not_otherwise(host: Host) -> None:
    host.bells[0].listen(SCRIPT)
    host.send(0, 1, 0)
    host.poll(1)
    assert not host.is_rung(0), "it does not wait for room"
    fill(host)
    assert not host.is_rung(0)
    host.poll(1)
    assert host.is_rung(0)
    host.poll(0)
    host.bells[0].silence(SCRIPT)
    host.poll(1)
    assert not host.is_rung(0), "its outbox is empty"


def test_a_poll_ends_even_when_the_writer_is_faster(host: Host) -> None:
    for _ in range(FRAMES_PER_POLL + 5):
        host.send(0, 1, None)
    assert [host.poll(1), host.poll(1), host.poll(1)] == [FRAMES_PER_POLL, 5, 0]


def test_a_body_is_read_where_it_lies_and_that_memory_is_not_used_again_meanwhile(host: Host) -> None:
    fill(host)
    seen: list[bytes] = []

    def take(frame: Frame) -> None:
        before = bytes(frame.body)
        host.poll(0)
        host.send(0, 1, LARGEST)
        assert bytes(frame.body) == before
        seen.append(before)

    host.transports[1].poll(take)
    assert len(seen) >= 2


def test_sent_bytes_and_copies_are_counted(host: Host) -> None:
    host.send(0, 1, 0, b"abc")
    host.send(0, 1, None)
    transport = host.transports[0]
    assert (transport.bytes_sent, transport.num_copies, transport.refused) == (2 * HEADER_BYTES + 3 + 4, 1, {})
    assert transport.fileno_set() == []
    transport.close()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (0, r"^a frame begins with b'\\xa8EFT', not b'WEFT': not one of Weft's.$"),
        (20, r"^a frame's header does not match its checksum.$"),
        (HEADER_BYTES, r"^a frame's data does not match its checksum.$"),
    ],
)
def test_a_frame_that_was_spoilt_is_refused_before_anybody_takes_it(host: Host, place: int, message: str) -> None:
    host.send(0, 1, 0, b"abc")
    size = WORDS_BYTES + ring_bytes(LAYOUT)
    (byte,) = os.pread(host.fd, 1, size + WORDS_BYTES + place)
    os.pwrite(host.fd, bytes([byte ^ 0xFF]), size + WORDS_BYTES + place)
    with pytest.raises(TransportError, match=message):
        host.poll(1)
    assert host.taken[1] == []


def test_a_ring_has_room_for_two_of_the_largest_frames_on_whole_lines() -> None:
    assert ring_bytes(LAYOUT) >= 2 * (HEADER_BYTES + DATA_BYTES_MAX + LAYOUT.body_bytes_max)
    assert ring_bytes(LAYOUT) % LINE == 0


def test_a_process_in_the_place_of_a_dead_one_does_not_read_what_was_sent_to_that(host: Host) -> None:
    host.send(0, 1, 3, b"read")
    host.poll(1)
    host.taken[1].clear()
    host.send(0, 1, 3, b"left")
    host.transports[1] = RingTransport(host.fd, 1, 2, LAYOUT, host.bells[1], is_new=True)
    assert host.poll(1) == 0
    later = [host.send(0, 1, LARGEST, b"later"), host.send(0, 1, LARGEST, b"last")]
    host.poll(1)
    assert host.taken[1] == later


def test_what_a_dead_process_has_sent_is_still_there_when_another_takes_its_place(host: Host) -> None:
    sent = host.send(1, 0, 3, b"before")
    host.transports[1] = RingTransport(host.fd, 1, 2, LAYOUT, host.bells[1], is_new=True)
    sent_later = host.send(1, 0, 3, b"behind it")
    host.poll(0)
    assert host.taken[0] == [sent, sent_later]


def test_a_new_process_takes_over_a_full_ring_and_there_is_room_in_it_at_once(host: Host) -> None:
    fill(host)
    host.transports[0].forget([1])
    host.transports[1] = RingTransport(host.fd, 1, 2, LAYOUT, host.bells[1], is_new=True)
    sent = host.send(0, 1, LARGEST)
    assert host.transports[0].outbox_bytes(1) == 0
    host.poll(1)
    assert host.taken[1] == [sent]


def test_what_waits_for_a_dead_process_is_forgotten_and_what_waits_for_others_is_not() -> None:
    with opened(3) as host:
        fill(host, 0, 1)
        to_other = fill(host, 0, 2)
        waiting = host.transports[0].outbox_bytes(2)
        host.transports[0].forget([1])
        assert host.transports[0].outbox_bytes(1) == 0
        assert host.transports[0].outbox_bytes() == waiting > 0
        for rank in (2, 0, 2):
            host.poll(rank)
        assert host.taken[2] == to_other
