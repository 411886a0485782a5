"""A wire between drivers of one process: frames are bytes that wait until they are polled."""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from support.processes.one_host import Memory
from weft.core.names import Bucket, NodeId, Role
from weft.core.recorder import TraceHash
from weft.core.strategy import Strategy
from weft.core.world import World
from weft.runtime.driver import Driver
from weft.runtime.mailbox import Mailbox, kinds_of, rank_of
from weft.store.coded import coded_bytes_max
from weft.store.live import LiveStore
from weft.transports.frames import HEADER_BYTES, Layout
from weft.transports.transport import FindRoom, Frame, Rank, Traffic


class Wire:
    """A transport that keeps what was sent; `refused` and counters are there because a transport has them."""

    def __init__(self, layout: Layout, ends: dict[Rank, "Wire"], rank: Rank) -> None:
        self._layout = layout
        self._ends = ends
        self._rank = rank
        self.waiting: deque[tuple[Rank, bytes, bytes, bytes]] = deque()
        ends[rank] = self
        self.bytes_sent = 0
        self.num_copies = 0
        self.refused: dict[str, int] = {}
        self._find_room: FindRoom = lambda header: None
        self.lent: list[Hashable | None] = []
        """What each frame was lent for."""
        self.taken_back: list[Hashable] = []

    def send(
        self, to: Rank, header: bytes, data: bytes, body: memoryview | None, lent_for: Hashable | None = None
    ) -> None:
        raw = b"" if body is None else bytes(body)
        self.lent.append(lent_for)
        self.bytes_sent += HEADER_BYTES + len(data) + len(raw)
        self._ends[to].waiting.append((self._rank, header, data, raw))

    def poll(self, take: Callable[[Frame], None]) -> int:
        count = len(self.waiting)
        for _ in range(count):
            sender, header, data, body = self.waiting.popleft()
            read = self._layout.read(header)
            room = self._find_room(read)
            if room is not None:
                room[:] = body
            take(Frame(read, data, memoryview(body) if room is None else room, sender))
        return count

    def take_back(self, lent_for: Hashable) -> None:
        self.taken_back.append(lent_for)

    def receive_into(self, find_room: FindRoom) -> None:
        self._find_room = find_room

    def forget(self, lost: Sequence[Rank]) -> None: ...

    def reconnect(self, newcomers: Mapping[Rank, int], view: int) -> list[Rank]:
        return []

    def outbox_bytes(self, to: Rank | None = None) -> int:
        return 0

    def traffic(self) -> dict[Rank, Traffic]:
        return {}

    def fileno_set(self) -> list[int]:
        return []

    def door_set(self) -> list[int]:
        return []

    def is_answering(self) -> bool:
        return False

    def close(self) -> None:
        pass


class Processes:
    """The drivers of all processes of a world, over wires."""

    def __init__(
        self, strategy: Strategy, num_workers: int, buckets: tuple[Bucket, ...], recorder: TraceHash | None = None
    ) -> None:
        self.world = World(strategy.roles(num_workers), buckets, strategy.graph(num_workers))
        kinds = kinds_of(strategy.kinds())
        codecs: Mapping[str, Any] = strategy.codecs()
        layout = Layout(len(kinds), self.world.num_nodes, buckets, coded_bytes_max(codecs.values(), buckets))
        ends: dict[Rank, Wire] = {}

        def new_post(rank: Rank) -> Mailbox:
            return Mailbox(self.world, kinds, Wire(layout, ends, rank), codecs)

        self._new_post = new_post
        self.posts = [new_post(rank) for rank in range(num_workers)]
        self.stores: dict[int, LiveStore] = {}
        self._strategy = strategy
        for node in range(self.world.num_nodes):
            self._make_store(node)
        self.drivers = [
            Driver(
                strategy,
                self.world,
                {node: store for node, store in self.stores.items() if rank_of(self.world, node) == rank},
                self.posts[rank],
                seed=0,
                recorder=recorder,
            )
            for rank in range(num_workers)
        ]
        for driver in self.drivers:
            driver.make_store = self._make_store

    def _make_store(self, node: NodeId) -> LiveStore:
        strategy, buckets = self._strategy, self.world.buckets
        arrays = [[np.zeros(b.num_elements, f"f{b.itemsize}") for b in buckets] for _ in range(2)]
        self.stores[node] = LiveStore(
            Memory(buckets, *arrays),  # type: ignore[arg-type]
            [slot.name for slot in strategy.slots(self.world.role(node), self.world)],
            strategy.rules(self.world),
            is_server=self.world.role(node) is Role.SERVER,
            codecs=strategy.codecs(),
        )
        return self.stores[node]

    def start_anew(self, rank: Rank, view: int) -> None:
        """A new process takes the place of a lost one, whose servers have been moved; `view` is to be its first."""
        post = self.posts[rank] = self._new_post(rank)
        post.close()
        world, stores = replace(self.world, view=view), {rank: self._make_store(rank)}
        driver = self.drivers[rank] = Driver(self._strategy, world, stores, post, seed=0)
        driver.make_store = self._make_store
        driver.start()

    def start(self) -> None:
        for driver in self.drivers:
            driver.start()

    def settle(self) -> None:
        """Until nothing is left to do."""
        while sum(driver.progress() for driver in self.drivers):
            pass
