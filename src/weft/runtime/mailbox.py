"""The mailbox of a process: makes frames of `Send` actions and `Received` events of frames, and fetches replicas.

While the view changes (runtime/view_change.py) it is closed: frames that come are kept, and frames of its own that no
peer has sent wait until it is open again.

| state    | frames that come              | left by                                                        |
|----------|-------------------------------|----------------------------------------------------------------|
| open     | are handed over               | `close`                                                        |
| closed   | are kept                      | `take_up_to`, called until all frames of the cut have come     |
| cut      | are kept, or handed over      | `open_again`                                                   |

Frames of processes that are lost are dropped.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from weft.codecs.codec import Codec
from weft.core.actions import Send
from weft.core.errors import CodecError, UnexpectedMessage
from weft.core.events import Received
from weft.core.names import INBOX, PARAMS, Buffer, NodeId, Part
from weft.core.world import World
from weft.runtime.measure.tracer import Tracer
from weft.runtime.reduce.between_hosts import BetweenHosts, Key
from weft.runtime.reduce.exchange import CamePart
from weft.store.coded import Coded, received, shape_of
from weft.store.live import LiveStore
from weft.transports.frames import CODED_ITEMSIZE, HEADER_BYTES, Header, kind_table
from weft.transports.transport import Frame, Rank, Transport

Array = NDArray[Any]
Receive = Callable[[NodeId, Received, Array | Coded | None, Any], None]

FETCH = "@fetch"
VALUES = "@values"
NOTE = "@note"
"""Kinds of frames that peers never see: FETCH requests a bucket of a node's parameters, VALUES answers it, NOTE carries
a note between native reductions."""
SUMS = ("@sum.0", "@sum.1")
"""Further kinds that peers never see: parts of hosts' sums, one kind per lane."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def kinds_of(names: Mapping[str, object]) -> dict[str, int]:
    """The table from kind to number, which is the same in all processes of a run."""
    return kind_table([*names, FETCH, VALUES, NOTE, *SUMS])


def rank_of(world: World, node: NodeId) -> Rank:
    """The rank of the process that hosts `node` at first: servers are dealt to worker processes in turn."""
    return node if node < world.num_workers else (node - world.num_workers) % world.num_workers


def _part(header: Header) -> Part | None:
    return Part(*header.part) if header.part[1] else None


def _refuse(source: NodeId, note: bytes | memoryview) -> None:
    raise UnexpectedMessage(f"node {source} sent a note of {len(note)} bytes, but none is expected here.")


class Mailbox:
    """Sends and receives for the nodes of one process over `transport`, which is None in a run of one process."""

    def __init__(
        self,
        world: World,
        kinds: Mapping[str, int],
        transport: Transport | None,
        codecs: Mapping[str, Any] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._world = world
        self.places = [rank_of(world, node) for node in range(world.num_nodes)]
        """The process of each node; servers are moved when theirs is lost."""
        self._tracer = tracer
        self._codecs: Mapping[str, Codec] = codecs or {}
        self._kinds = dict(kinds)
        self._names = {number: name for name, number in kinds.items()}
        self.transport = transport
        self._receive: Receive
        self._stores: Mapping[NodeId, LiveStore] = {}
        self._me: NodeId | None = None
        self._fetched: dict[tuple[NodeId, int], Array] = {}
        self._wanted: list[tuple[NodeId, int]] = []
        """What `fetch` has requested of other processes and still counts on."""
        self.sent: Counter[Rank] = Counter()
        self._received: Counter[Rank] = Counter()
        """Frames sent to, and handed over from, each other process."""
        self._lost: set[Rank] = set()
        self._moved: list[NodeId] = []
        """The servers whose process changed with the last view."""
        self._is_closed = False
        self._kept: deque[Frame] = deque()
        """Copies of frames that came while it was closed."""
        self._unsent: list[tuple[Rank, bytes, bytes, bytes | None]] = []
        self.on_note: Callable[[NodeId, bytes | memoryview], None] = _refuse
        """Called with the source and content of each note; set by a native reduction that exchanges notes."""
        self._sums: BetweenHosts | None = None
        """Takes the parts of other hosts' sums, on the leader of a host."""

    def open(self, receive: Receive, stores: Mapping[NodeId, LiveStore]) -> None:
        """Deliver messages to `receive` from now on; `stores` are those of this process's nodes."""
        self._receive = receive
        self._me = min(stores)
        self._keep(stores)

    def _keep(self, stores: Mapping[NodeId, LiveStore]) -> None:
        """These are the stores of this process's nodes; they take back what they have lent."""
        self._stores = stores
        for node, store in stores.items():
            store.take_back = partial(self._take_back_of, node)

    def _take_back_of(self, node: NodeId, slot: str, bucket: int) -> None:
        self.take_back((node, slot, bucket))

    def hear_sums(self, sums: BetweenHosts) -> None:
        """Give `sums` the parts of other hosts' sums, which are received to where it wants them."""
        assert self.transport is not None
        self._sums = sums
        self.transport.receive_into(self._room)

    def _room(self, header: Header) -> memoryview | None:
        kind = self._names[header.kind]
        if self._sums is None or kind not in SUMS or header.itemsize <= CODED_ITEMSIZE or self._is_closed:
            return None
        room = self._sums.room((SUMS.index(kind), header.bucket), (header.source, header.clock, _part(header)))
        return None if room is None else room.data.cast("B")

    def poll(self) -> bool:
        """Send and receive without blocking; whether anything came."""
        if self.transport is None:
            return False
        has_kept = bool(self._kept) and not self._is_closed
        while self._kept and not self._is_closed:
            self._count(self._kept.popleft())
        return self.transport.poll(self._take) > 0 or has_kept

    def close(self) -> None:
        """Keep what comes from now on."""
        self._is_closed = True

    def lose(self, lost: Sequence[Rank]) -> None:
        """Drop what comes from these processes, and what waits for them."""
        self._lost.update(lost)
        if self.transport is not None:
            self.transport.forget(lost)
        self._kept = deque(frame for frame in self._kept if frame.sender not in self._lost)

    def renew(self, newcomers: Sequence[Rank]) -> None:
        """New processes take the places of lost ones, and have sent nothing yet: what is still there is dropped."""
        if not newcomers:
            return
        assert self.transport is not None
        while self.transport.poll(self._take):
            pass
        self._lost.difference_update(newcomers)
        for rank in newcomers:
            del self.sent[rank], self._received[rank]

    def reconnect(self, ports: Mapping[Rank, int], view: int) -> list[Rank]:
        """Connect to the newcomers of `view`, by the ports of those that use sockets; this process may be one of them.
        Returns those that cannot be reached."""
        if not ports:
            return []
        assert self.transport is not None
        return self.transport.reconnect(ports, view)

    @property
    def received(self) -> Mapping[Rank, int]:
        """Number of frames that were handed over from each other process."""
        return self._received

    @property
    def num_kept(self) -> int:
        """Frames that came while it was closed, and wait."""
        return len(self._kept)

    def take_up_to(self, cut: Mapping[Rank, int]) -> bool:
        """Hand over the kept frames that are among the first `cut` of their process; whether all of these have come."""
        later: deque[Frame] = deque()
        for frame in self._kept:
            if self._received[frame.sender] < cut.get(frame.sender, 0):
                self._count(frame)
            else:
                later.append(frame)
        self._kept = later
        return all(self._received[rank] >= number for rank, number in cut.items() if rank not in self._lost)

    def move_servers(self, members: Sequence[Rank]) -> list[NodeId]:
        """Give each server whose process is lost to the member that has the fewest, and returns the servers that were
        moved. All processes find the same places."""
        self._moved = [server for server in self._world.servers if self.places[server] not in members]
        for server in self._moved:
            num_servers = Counter(self.places[other] for other in self._world.servers)
            self.places[server] = min(members, key=lambda rank: (num_servers[rank], rank))
        return self._moved

    def open_again(self, stores: Mapping[NodeId, LiveStore], view: int) -> None:
        """The view has changed to `view`: send what was waiting, want nothing more of those who are lost, and fetch
        from moved servers where they are now. `stores` are now those of this process's nodes."""
        self._is_closed = False
        self._keep(stores)
        if self._tracer is not None:
            self._tracer.enter_view(view)
        unsent, self._unsent = self._unsent, []
        assert self.transport is not None
        for to, header, data, body in unsent:
            if to not in self._lost:
                self.sent[to] += 1
                self.transport.send(to, header, data, None if body is None else memoryview(body))
        self._wanted = self._elsewhere(self._wanted)
        self._request([one for one in self._wanted if one[0] in self._moved])

    def living(self, workers: Sequence[NodeId]) -> list[NodeId]:
        """Those of these workers whose processes are not lost."""
        return [worker for worker in workers if worker not in self._lost]

    def _elsewhere(self, wanted: list[tuple[NodeId, int]]) -> list[tuple[NodeId, int]]:
        """What of this is in other processes; without lost workers, but with servers: these are moved."""
        return [(node, bucket) for node, bucket in wanted if node not in self._stores and node not in self._lost]

    def _request(self, wanted: list[tuple[NodeId, int]]) -> None:
        assert self._me is not None
        for node, bucket in wanted:
            self._send_frame(node, FETCH, self._me, 0, bucket, (0, 0), 1.0, b"", None)

    def send(
        self, source: NodeId, action: Send, body: Array | Coded | None, hyper: Any, *, is_lent: bool = False
    ) -> None:
        """Send `action` with the hyper-parameters `hyper` and `body`; if coded, with the codec's name. A body that is
        lent does not change before it has left, or its store takes it back."""
        data = b"" if action.data is None and hyper is None else _encode((action.data, hyper))
        if isinstance(body, Coded):
            data = _encode((action.data, hyper, body.kind))
            body = body.raw()
        part = (0, 0) if action.body is None or action.body.part is None else action.body.part
        bucket = action.bucket if action.body is None else action.body.bucket
        lent_for = (source, action.body.slot, bucket) if is_lent and action.body is not None else None
        self._send_frame(
            action.to, action.kind, source, action.clock, bucket, part, action.weight, data, body, lent_for
        )

    def _send_frame(
        self,
        to: NodeId,
        kind: str,
        source: NodeId,
        clock: int,
        bucket: int,
        part: tuple[int, int],
        weight: float,
        data: bytes,
        body: Array | None,
        lent_for: Hashable | None = None,
    ) -> None:
        assert self.transport is not None
        itemsize, num_bytes = (0, 0) if body is None else (body.itemsize, body.nbytes)
        header = Header(
            self._kinds[kind], source, to, clock, bucket, part, weight, itemsize, len(data), num_bytes, crc32(data)
        )
        memory, rank = None if body is None else body.data, self.places[to]
        if self._is_closed:
            self._unsent.append((rank, header.pack(), data, None if memory is None else bytes(memory)))
            return
        self.sent[rank] += 1
        if self._tracer is None:
            self.transport.send(rank, header.pack(), data, memory, lent_for)
            return
        since_s = time.perf_counter()
        self.transport.send(rank, header.pack(), data, memory, lent_for)
        self._tracer.sent(source, to, kind, clock, HEADER_BYTES + len(data) + num_bytes, since_s)

    def _take(self, frame: Frame) -> None:
        if frame.sender in self._lost:
            return
        if self._is_closed:
            copy = Frame(frame.header, bytes(frame.data), memoryview(bytes(frame.body)), frame.sender)
            self._kept.append(copy)
            return
        self._count(frame)

    def _count(self, frame: Frame) -> None:
        self._received[frame.sender] += 1
        if self._tracer is None:
            self._hand_over(frame, frame.header)
            return
        since_s, header = time.perf_counter(), frame.header
        self._hand_over(frame, header)
        num_bytes = HEADER_BYTES + header.data_bytes + header.body_bytes
        self._tracer.received(header.source, header.target, self._names[header.kind], header.clock, num_bytes, since_s)

    def _hand_over(self, frame: Frame, header: Header) -> None:
        kind = self._names[header.kind]
        payload: Array | Coded | None = None
        if header.itemsize > CODED_ITEMSIZE:
            payload = np.frombuffer(frame.body, f"f{header.itemsize}")
        if kind == FETCH:
            values = self._stores[header.target].lend(Buffer(PARAMS, header.bucket))
            bucket_and_part = (header.bucket, (0, 0))
            self._send_frame(header.source, VALUES, header.target, header.clock, *bucket_and_part, 1.0, b"", values)
        elif kind == VALUES:
            assert isinstance(payload, np.ndarray)
            self._fetched[header.source, header.bucket] = payload.copy()
        elif kind == NOTE:
            self.on_note(header.source, frame.data)
        elif kind in SUMS:
            self._take_sum(SUMS.index(kind), header, frame.data, payload)
        else:
            data, hyper, *coding = _decode(frame.data) if header.data_bytes else (None, None)
            body = None
            if header.itemsize:
                body = Buffer(INBOX, header.bucket, _part(header))
                if header.itemsize == CODED_ITEMSIZE:
                    payload = self._decoded(header, body, coding, frame.body)
            event = Received(header.source, kind, header.clock, header.bucket, body, header.weight, data)
            self._receive(header.target, event, payload, hyper)

    def send_sum(
        self, to: NodeId, key: Key, number: int, part: Part | None, about: bytes, values: Array, *, is_lent: bool
    ) -> None:
        """Send a part of this host's sum to the leader of another host."""
        lane, bucket = key
        assert self._me is not None
        bucket_and_part, lent_for = (
            (bucket, (0, 0) if part is None else (part.which, part.of)),
            key if is_lent else None,
        )
        self._send_frame(to, SUMS[lane], self._me, number, *bucket_and_part, 1.0, about, values, lent_for)

    def take_back(self, lent_for: Hashable) -> None:
        """Copy what was lent for this, of a bucket's last sum or by a store, and has not left yet."""
        if self.transport is not None:
            self.transport.take_back(lent_for)

    def _take_sum(self, lane: int, header: Header, about: bytes | memoryview, values: Array | Coded | None) -> None:
        if self._sums is None or not isinstance(values, np.ndarray):
            raise UnexpectedMessage(
                f"{self._world.name(header.source)} sent a part of a sum to {self._world.name(header.target)}, "
                "which expects none."
            )
        came = CamePart(header.source, header.clock, _part(header), bytes(about), values)
        self._sums.hear((lane, header.bucket), came)

    def _decoded(self, header: Header, body: Buffer, coding: list[Any], raw: memoryview) -> Coded:
        """A coded body, checked against its bucket; raises a CodecError that names its sender."""
        source = self._world.name(header.source)
        kind = coding[0] if coding else None
        codec = self._codecs.get(kind) if isinstance(kind, str) else None
        if codec is None or not isinstance(kind, str):
            raise CodecError(f"{source} sent a body in the code of {kind!r}, which has no codec here.")
        shape = shape_of(self._world.buckets[body.bucket], body.part)
        try:
            return received(kind, codec, shape, np.frombuffer(raw, np.uint8), header.clock)
        except CodecError as error:
            raise CodecError(
                f"{source} sent what cannot be decoded, at step {header.clock}: {error}\n"
                "  Nothing of it was applied. Is the same version of Weft installed everywhere?"
            ) from error

    def tell(self, me: NodeId, to: NodeId, note: bytes) -> None:
        """Send a note to the native reduction of another process."""
        self._send_frame(to, NOTE, me, 0, 0, (0, 0), 1.0, note, None)

    def fetch(self, me: NodeId, wanted: list[tuple[NodeId, int]], wait: Callable[[Callable[[], bool]], None]) -> None:
        """Request the `wanted` (node, bucket) parameters of other processes; `fetched` has them when `wait` returns."""
        self._fetched.clear()
        self._wanted = self._elsewhere(wanted)
        self._request(self._wanted)
        wait(lambda: all(one in self._fetched for one in self._wanted))

    def fetched(self, node: NodeId, bucket: int) -> Array:
        """The parameters of a node of this process, or those that `fetch` has brought."""
        if node in self._stores:
            return self._stores[node].lend(Buffer(PARAMS, bucket))
        return self._fetched[node, bucket]
