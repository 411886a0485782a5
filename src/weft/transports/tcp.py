"""The TCP transport: connections between the processes of a run, one for each pair that does not use rings.

A process connects to those of lower rank and accepts those of higher rank. A newcomer, which takes the place of a
process that is lost, is connected to by all others when its view is to come (`reconnect`); two newcomers of one view
do as processes do at the start. A call says its view, so that none is taken for that of another process of the same
rank.

Frames go from the sender's memory to the socket without a copy, and from the socket to one buffer per connection. The
listener stays open while training runs: strangers that connect later are refused and counted.
"""

import selectors
import socket
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_bytes
from time import monotonic, sleep
from typing import TYPE_CHECKING

from weft.core.errors import ConfigError, NodeLost, TransportError
from weft.core.names import NodeId
from weft.transports.dialing import Address, check_loopback, dial
from weft.transports.door import Door
from weft.transports.frames import HEADER_BYTES, Header, Layout
from weft.transports.handshake import NONCE_BYTES, SECRET_BYTES, Steps, answer
from weft.transports.link import GOODBYE, SocketLink
from weft.transports.tcp_info import traffic
from weft.transports.tls import Connection
from weft.transports.transport import FindRoom, Frame, Rank, Traffic
from weft.transports.unread import Unread

if TYPE_CHECKING:
    from weft.transports.certificates import Contexts

TURN_FRAMES_MAX = 64
TURN_BYTES_MAX = 4 << 20
"""Frames and bytes that one turn reads from one connection at most, so that the others get theirs."""
SPINS = 16
"""Polls before sleeping, about a microsecond each: an answer often comes sooner than a sleeper wakes."""
LINGER_S_MAX = 1.0
LOOK_S = 0.05
"""How often to look, while connecting, who is lost."""


class TcpTransport:
    """Frames between this process and the others of the run, over TCP.

    The secret authenticates every connection. Off loopback all connections also use TLS, unless `is_private`: then
    nobody is on the network who would listen or interfere.
    """

    def __init__(
        self,
        rank: Rank,
        num_processes: int,
        listener: socket.socket,
        addresses: Sequence[Address],
        secret: bytes,
        layout: Layout,
        *,
        rank_of: Callable[[NodeId], Rank | None],
        on_broken: Callable[[Rank], None] | None = None,
        tls: "Contexts | None" = None,
        is_private: bool = False,
        others: Sequence[Rank] | None = None,
        first_view: int = 0,
        connect_timeout_s: float = 10.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`addresses` are those of all ranks, in order; `rank_of` maps a node to the rank of its process, None if that
        may change. `on_broken` is called with each process whose connection ended without a goodbye, and what is for it
        is dropped; None: such an end is an error.

        `others` are the ranks to connect to; None: all. `first_view` is the first view in which a newcomer may come in,
        and else 0.

        `is_private` is for network namespaces that Weft made itself, for this run alone, on one machine, and for
        networks that the user declares to be trusted.
        """
        _check_run(num_processes, addresses, secret)
        if tls is None and not is_private:
            check_loopback([*enumerate(addresses), (rank, listener.getsockname())])
        self.bytes_sent = 0
        self.num_copies = 0
        self.gone: dict[Rank, str] = {}
        """Ranks whose connections have ended, and how."""
        self._rank = rank
        self._others = [r for r in (range(num_processes) if others is None else sorted(others)) if r != rank]
        self._addresses = list(addresses)
        self._secret = secret
        self._layout = layout
        self._rank_of = rank_of
        self._on_broken = on_broken
        self._tls = tls
        self._connect_timeout_s, self._clock = connect_timeout_s, clock
        self._is_connected, self._is_closed = False, False
        self._first_view = first_view
        self._came_in = None if first_view else 0
        """The view in which this process came in; None: it has not been told yet."""
        self._called_for: dict[Rank, int] = {}
        """The last view for which each rank has called, or was called."""
        self._links: dict[Rank, SocketLink] = {}
        self._find_room: FindRoom = lambda header: None
        self._selector = selectors.DefaultSelector()
        self._at_door = selectors.DefaultSelector()
        """The door and who stands in it, for those who wait for no frames."""
        self._selector.register(self._at_door, selectors.EVENT_READ, self._at_door)
        self._unread = Unread(self._selector)
        self._door = Door(listener, self._answer, tls and tls.answer, self._at_door, clock)
        self.refused = self._door.refused

    def connect(self, lost: Callable[[], Collection[Rank]] = tuple) -> None:
        """Connect to all `others` that are not `lost()` meanwhile; raises a TransportError or NodeLost that names the
        ranks that are missing. A newcomer waits until it is called."""
        try:
            if not self._first_view:
                self._meet(self._others, 0, lost)
        except BaseException:
            self.abort()
            raise
        self._is_connected = True
        for link in self._links.values():
            self._selector.register(link.sock, selectors.EVENT_READ, link)

    def _meet(self, others: Sequence[Rank], view: int, lost: Callable[[], Collection[Rank]] = tuple) -> None:
        """Connect to those of lower rank, and wait until those of higher rank have, unless they are lost."""
        began_s = self._clock()
        # A process accepts only after its own connects, which go to still lower ranks: so there is no cycle.
        for rank in (rank for rank in others if rank < self._rank):
            self._call_unless_lost(rank, view, began_s, lost)
        while missing := [rank for rank in others if rank > self._rank and rank not in {*self._links, *lost()}]:
            if self._clock() >= began_s + self._connect_timeout_s:
                raise TransportError(self._still_awaited(missing))
            self._serve_door(LOOK_S)
            self._door.dismiss_the_slow()

    def _call_unless_lost(self, rank: Rank, view: int, began_s: float, lost: Callable[[], Collection[Rank]]) -> None:
        """Connect to `rank`. One that is dead cannot be reached, perhaps before it is known here that it is lost."""
        while rank not in lost():
            error = self._try_to_call(rank, view, began_s)
            if error is None:
                return
            if self._on_broken is None or self._clock() >= began_s + self._connect_timeout_s:
                raise error
            sleep(LOOK_S)

    def _try_to_call(self, rank: Rank, view: int, began_s: float) -> NodeLost | TransportError | None:
        """Connect to `rank`; returns why it cannot be reached."""
        try:
            self._add(rank, self._call(rank, view, began_s))
        except (NodeLost, TransportError) as error:
            return error
        return None

    def reconnect(self, newcomers: Mapping[Rank, int], view: int) -> list[Rank]:
        self._addresses = [(host, newcomers.get(rank, port)) for rank, (host, port, *_) in enumerate(self._addresses)]
        if self._rank in newcomers:
            self._came_in = view
            self._meet([rank for rank in newcomers if rank in self._others], view)
            return []
        unreached = []
        for rank in (rank for rank in newcomers if rank in self._others):
            self.forget([rank])
            if self._try_to_call(rank, view, self._clock()) is not None:
                unreached.append(rank)
        return unreached

    def _call(self, rank: Rank, view: int, began_s: float) -> Connection:
        self._called_for[rank] = view
        return dial(
            self._addresses[rank],
            me=self._rank,
            other=rank,
            secret=self._secret,
            tls=self._tls and self._tls.call,
            timeout_s=self._connect_timeout_s,
            view=view,
            began_s=began_s,
            clock=self._clock,
        )

    def _still_awaited(self, missing: Sequence[Rank]) -> str:
        refused = ", ".join(f"{reason} ({count})" for reason, count in self.refused.items()) or "none"
        return (
            f"rank {self._rank} waited {self._connect_timeout_s:g} s for {_ranks(missing)} to connect.\n"
            f"  Look at what they printed last. Connections refused meanwhile: {refused}."
        )

    def _add(self, rank: Rank, sock: Connection) -> None:
        self.forget([rank])
        self.gone.pop(rank, None)
        link = self._links[rank] = SocketLink(
            rank, sock, self._read_header, self._layout.body_bytes_max, lambda header: self._find_room(header)
        )
        if self._is_connected:
            self._selector.register(sock, selectors.EVENT_READ, link)

    def _answer(self, certified: Rank | None) -> Steps:
        return answer(self._rank, partial(self._objection, certified), self._secret, token_bytes(NONCE_BYTES))

    def _objection(self, certified: Rank | None, caller: Rank, view: int) -> str | None:
        if caller not in self._others or (caller < self._rank and not self._first_view):
            return "wrong rank"
        if certified not in (None, caller):
            return "wrong certificate"
        if view < self._first_view or (self._came_in is not None and view > self._came_in):
            return "wrong view"
        last = self._called_for.get(caller, 0)
        if view < last or (view == last and (caller in self._links or caller in self.gone)):
            return "duplicate rank"
        self._called_for[caller] = view
        return None

    def _serve_door(self, timeout_s: float = 0.0) -> None:
        for key, _ in self._at_door.select(timeout_s):
            party = key.data
            if isinstance(party, Door):
                party.accept()
            elif (rank := self._door.advance(party)) is not None:
                self._add(rank, party.sock)

    def _read_header(self, rank: Rank, raw: memoryview) -> Header:
        header = self._layout.read(raw)
        home, goal = self._rank_of(header.source), self._rank_of(header.target)
        if home not in (None, rank) or goal not in (None, self._rank):
            raise TransportError(
                f"it goes from node {header.source} of rank {home} to node {header.target} of rank {goal}, "
                f"but came from rank {rank} to rank {self._rank}."
            )
        return header

    def receive_into(self, find_room: FindRoom) -> None:
        self._find_room = find_room

    def send(
        self, to: Rank, header: bytes, data: bytes, body: memoryview | None, lent_for: Hashable | None = None
    ) -> None:
        link = self._links.get(to)
        if link is None and self._on_broken is not None:
            return
        if link is None:
            raise NodeLost(f"a frame is for rank {to}, but {self.gone.get(to, 'there is no connection to it')}.")
        was_waiting = link.waiting_bytes
        # An empty memoryview cannot be cast.
        raw = body.cast("B") if body is not None and body.nbytes else b""
        num_bytes, is_copied = link.send((header, data, raw), lent_for)
        self.bytes_sent += num_bytes
        self.num_copies += is_copied
        self._watch(link, was_waiting)

    def take_back(self, lent_for: Hashable) -> None:
        self.num_copies += sum(link.take_back(lent_for) for link in self._links.values())

    def _watch(self, link: SocketLink, was_waiting: int) -> None:
        """Poll for EVENT_WRITE only while the outbox is not empty."""
        if bool(link.waiting_bytes) != bool(was_waiting):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.waiting_bytes else 0)
            self._selector.modify(link.sock, events, link)

    def poll(self, take: Callable[[Frame], None]) -> int:
        num_frames = 0
        for key, events in self._selector.select(0):
            party = key.data
            if isinstance(party, SocketLink):
                num_frames += self._serve(party, events, take)
            elif isinstance(party, Unread):
                num_frames += sum(self._receive(each, take) for each in party.take() if each in self._links.values())
            else:
                self._serve_door()
        self._door.dismiss_the_slow()
        return num_frames

    def _serve(self, link: SocketLink, events: int, take: Callable[[Frame], None]) -> int:
        if self._links.get(link.rank) is not link:  # replaced in this turn
            return 0
        if events & selectors.EVENT_WRITE:
            was_waiting = link.waiting_bytes
            self.bytes_sent += link.flush()
            self._watch(link, was_waiting)
        return self._receive(link, take) if events & selectors.EVENT_READ else 0

    def _receive(self, link: SocketLink, take: Callable[[Frame], None]) -> int:
        num_frames = num_bytes = 0
        while num_frames < TURN_FRAMES_MAX and num_bytes < TURN_BYTES_MAX:
            try:
                frame = link.next_frame()
            except TransportError as error:
                self._drop(link, "it sent a bad frame")
                self.refused["bad frame"] = self.refused.get("bad frame", 0) + 1
                raise TransportError(f"rank {link.rank} sent a bad frame: {error}") from error
            except NodeLost:
                self._drop(link, "it is gone")
                if self._on_broken is None:
                    raise
                self._on_broken(link.rank)
                return num_frames
            if frame is None:
                break
            num_frames += 1
            num_bytes += HEADER_BYTES + len(frame.data) + len(frame.body)
            take(frame)
        else:
            if link.has_read_ahead():
                self._unread.add(link)
        if link.said_goodbye:
            self._drop(link, "it has said goodbye")
        return num_frames

    def _drop(self, link: SocketLink, how: str) -> None:
        self.gone[link.rank] = how
        del self._links[link.rank]
        if self._is_connected:
            self._selector.unregister(link.sock)
        link.sock.close()

    def wait(self, timeout_s: float) -> None:
        for _ in range(SPINS):
            if self._selector.select(0):
                return
        self._selector.select(timeout_s)

    def forget(self, lost: Sequence[Rank]) -> None:
        """Close the links to these processes; one whose machine is gone would never break."""
        for link in [self._links[rank] for rank in lost if rank in self._links]:
            self._drop(link, "it is lost")

    def outbox_bytes(self, to: Rank | None = None) -> int:
        return sum(link.waiting_bytes for link in self._links.values() if to in (None, link.rank))

    def traffic(self) -> dict[Rank, Traffic]:
        told = {rank: traffic(link.sock) for rank, link in self._links.items()}
        return {rank: one for rank, one in told.items() if one is not None}

    def fileno_set(self) -> list[int]:
        return [self._selector.fileno()]

    def door_set(self) -> list[int]:
        return [self._at_door.fileno()]

    def is_answering(self) -> bool:
        return self._door.is_answering

    def close(self) -> None:
        """Send GOODBYE to all, after what is in the outboxes; gives up after LINGER_S_MAX, and closes."""
        if self._is_closed:
            return
        for rank in self._links:
            self.send(rank, GOODBYE, b"", None)
        deadline_s = self._clock() + LINGER_S_MAX
        while self._links and self.outbox_bytes() and self._clock() < deadline_s:
            self.wait(0.01)
            self._discard()
        # Closing a socket with unread bytes resets the connection (RST), and the goodbye would be lost.
        self._discard()
        self.abort()

    def _discard(self) -> None:
        with suppress(TransportError, NodeLost):
            self.poll(lambda frame: None)

    def abort(self) -> None:
        """Close all connections without a goodbye, so that the others see that this process failed."""
        if self._is_closed:
            return
        self._is_closed = True
        for link in self._links.values():
            link.sock.close()
        self._links.clear()
        self._door.close()
        self._unread.close()
        self._at_door.close()
        self._selector.close()


def _check_run(num_processes: int, addresses: Sequence[Address], secret: bytes) -> None:
    if len(addresses) != num_processes:
        raise ConfigError(f"there are {num_processes} processes, but {len(addresses)} addresses.\n  Give one for each.")
    if len(secret) != SECRET_BYTES:
        raise ConfigError(f"the job's secret has {len(secret)} bytes, not {SECRET_BYTES}.\n  Use secrets.token_bytes.")


def _ranks(ranks: Sequence[Rank]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
