"""Rings to this host, sockets to the others: one transport."""

from collections.abc import Mapping, Sequence
from typing import Any

from weft.transports.frames import Header
from weft.transports.mixed import MixedTransport
from weft.transports.transport import Frame, Traffic

ON_HOST = [3, 5]
FRAME = Frame(Header(0, 1, 0, 7, 0, (0, 0), 1.0, 0, 0, 0, 0), b"", memoryview(b""), 1)


class Half:
    """A transport that notes what it is asked."""

    def __init__(self, number: int) -> None:
        self.bytes_sent = number
        self.num_copies = 10 * number
        self.refused = {"why": number}
        self.number = number
        self.sent: list[Any] = []
        self.forgotten: list[int] = []
        self.asked: list[Any] = []
        self.is_closed = False

    def send(self, *sent: Any) -> None:
        self.sent.append(sent)

    def take_back(self, lent_for: Any) -> None:
        self.asked.append(lent_for)

    def receive_into(self, find_room: Any) -> None:
        self.asked.append(find_room)

    def poll(self, take: Any) -> int:
        take(FRAME)
        return self.number

    def forget(self, lost: Sequence[int]) -> None:
        self.forgotten = list(lost)

    def reconnect(self, newcomers: Mapping[int, int], view: int) -> list[int]:
        return [self.number, *newcomers, view]

    def outbox_bytes(self, to: int | None = None) -> int:
        return self.number if to is None else 100 * self.number + to

    def traffic(self) -> dict[int, Traffic]:
        return {self.number: Traffic(0.0, 1, 0.0, 2)}

    def fileno_set(self) -> list[int]:
        return [self.number]

    def door_set(self) -> list[int]:
        return [10 * self.number]

    def is_answering(self) -> bool:
        return self.number == 2

    def close(self) -> None:
        self.is_closed = True


def halves() -> tuple[Half, Half, MixedTransport]:
    rings, sockets = Half(1), Half(2)
    return rings, sockets, MixedTransport(ON_HOST, rings, sockets)


def test_frames_for_this_host_go_to_a_place_in_the_rings_and_others_to_a_rank_by_socket() -> None:
    rings, sockets, mixed = halves()
    mixed.send(5, b"h", b"d", None)
    mixed.send(1, b"H", b"D", None)
    assert rings.sent == [(1, b"h", b"d", None, None)]
    assert sockets.sent == [(1, b"H", b"D", None, None)]


def test_memory_is_lent_and_found_in_both_halves() -> None:
    rings, sockets, mixed = halves()
    mixed.send(1, b"H", b"D", None, "sums")
    assert sockets.sent[0][-1] == "sums"
    mixed.take_back("sums")
    mixed.receive_into(len)  # type: ignore[arg-type]
    assert rings.asked == sockets.asked == ["sums", len]


def test_what_waits_for_lost_processes_is_forgotten_by_the_half_that_has_it() -> None:
    rings, sockets, mixed = halves()
    mixed.forget([1, 5])
    assert (rings.forgotten, sockets.forgotten) == ([1], [1])


def test_newcomers_are_connected_to_by_the_sockets_and_the_rings_of_a_host_stay() -> None:
    _, _, mixed = halves()
    assert mixed.reconnect({5: 4711, 7: 4712}, 3) == [2, 5, 7, 3]


def test_frames_of_both_are_handed_over_and_counted() -> None:
    _, _, mixed = halves()
    taken: list[Frame] = []
    assert mixed.poll(taken.append) == 3
    assert taken == [FRAME._replace(sender=5), FRAME], "the rings' sender is a local rank"


def test_what_waits_is_known_for_each_and_for_all() -> None:
    _, _, mixed = halves()
    assert (mixed.outbox_bytes(), mixed.outbox_bytes(3), mixed.outbox_bytes(4)) == (3, 100, 204)


def test_bytes_and_copies_are_of_both_and_refusals_and_traffic_of_the_sockets() -> None:
    rings, sockets, mixed = halves()
    assert (mixed.bytes_sent, mixed.num_copies, mixed.refused) == (3, 30, {"why": 2})
    assert (mixed.traffic(), mixed.fileno_set()) == ({2: Traffic(0.0, 1, 0.0, 2)}, [1, 2])
    assert (mixed.door_set(), mixed.is_answering()) == ([20], True)
    mixed.close()
    assert rings.is_closed
    assert sockets.is_closed
