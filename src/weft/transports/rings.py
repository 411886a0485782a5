"""Shared-memory rings: one for each ordered pair of processes of a host, with a single writer and a single reader.

A ring is three words and its memory. Frames are contiguous and begin on cache lines; one that does not fit before the
end begins at the start again. A body is copied once, into the ring; the reader uses it in place.

| word    | written by | means                                      | ordering                                         |
|---------|------------|--------------------------------------------|--------------------------------------------------|
| WRITTEN | the writer | bytes written so far, ever                 | after the frame (fence); before the bell (fence) |
| READ    | the reader | bytes read so far, ever: this room is free | after the frame was used (fence)                 |
| BLOCKED | the writer | frames wait in its outbox for room         | read after READ was written (fence)              |

The reader reads a frame after WRITTEN without a fence: x86-64 does not reorder loads.
"""

import mmap
import os
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence

from weft.transports.bells import BACKGROUND, SCRIPT, Bells, fence
from weft.transports.frames import DATA_BYTES_MAX, HEADER_BYTES, Layout, check_data
from weft.transports.transport import FindRoom, Frame, Rank, Traffic

LINE = 64
WRITTEN, READ, BLOCKED = 0, 8, 16
"""Indices of a ring's words, a cache line each, so that writer and reader do not share one."""
WORDS_BYTES = 3 * LINE
LAP = b"LAP!"
"""Written instead of a frame: the rest of the ring up to its end is empty."""

FRAMES_PER_POLL = 64


def ring_bytes(layout: Layout) -> int:
    """Size of a ring: two of the largest frames.

    A frame that would cross the end skips less than its own size, so that an empty ring always has room for it.
    """
    largest = HEADER_BYTES + DATA_BYTES_MAX + layout.body_bytes_max
    return 2 * -(-largest // LINE) * LINE


class RingTransport:
    """The rings from and to this process, in one memfd that all processes of the host map alike."""

    def __init__(
        self, fd: int, rank: Rank, num_processes: int, layout: Layout, bells: Bells, *, is_new: bool = False
    ) -> None:
        """`is_new`: the process takes the place of one that is dead, and what was sent to that one is not read."""
        self._layout = layout
        self._bells = bells
        self._capacity = ring_bytes(layout)
        size = WORDS_BYTES + self._capacity
        os.ftruncate(fd, num_processes * num_processes * size)
        self._memory = memoryview(mmap.mmap(fd, num_processes * num_processes * size))
        others = [other for other in range(num_processes) if other != rank]
        self._to = {other: self._ring((rank * num_processes + other) * size, size) for other in others}
        self._from = {other: self._ring((other * num_processes + rank) * size, size) for other in others}
        self._outbox: dict[Rank, deque[tuple[bytes, bytes, bytes]]] = {other: deque() for other in others}
        if is_new:
            for words, _ in self._from.values():
                words[READ] = words[WRITTEN]
        self.bytes_sent = 0
        self.num_copies = 0
        self.refused: dict[str, int] = {}

    def _ring(self, start: int, size: int) -> tuple[memoryview, memoryview]:
        words = self._memory[start : start + WORDS_BYTES].cast("q")
        return words, self._memory[start + WORDS_BYTES : start + size]

    def send(
        self, to: Rank, header: bytes, data: bytes, body: memoryview | None, lent_for: Hashable | None = None
    ) -> None:
        """Whatever is lent is copied at once: the ring is memory of its own."""
        raw = b"" if body is None else body.cast("B")
        self.bytes_sent += len(header) + len(data) + len(raw)
        self.num_copies += body is not None
        if self._outbox[to] or not self._write(to, header, data, raw):
            self._outbox[to].append((header, data, bytes(raw)))
            # The reader may free room before it can see this, and not ring. The next poll() tries again, and a thread
            # polls after Bells.listen and its fence, before it sleeps.
            self._to[to][0][BLOCKED] = 1

    def take_back(self, lent_for: Hashable) -> None:
        """Nothing to do: all was copied."""

    def receive_into(self, find_room: FindRoom) -> None:
        """Nothing to do: bodies are read where they lie in the ring."""

    def _write(self, to: Rank, header: bytes, data: bytes, body: memoryview | bytes) -> bool:
        """Copy a frame into the ring to `to`; False when there is no room."""
        words, memory = self._to[to]
        size = _lines(HEADER_BYTES + len(data)) + _lines(len(body))
        written = words[WRITTEN]
        offset = written % self._capacity
        skipped = self._capacity - offset if offset + size > self._capacity else 0
        if written + skipped + size - words[READ] > self._capacity:
            return False
        if skipped:
            memory[offset : offset + len(LAP)] = LAP
            offset = 0
        memory[offset : offset + HEADER_BYTES] = header
        end = offset + HEADER_BYTES + len(data)
        memory[offset + HEADER_BYTES : end] = data
        begin = offset + _lines(HEADER_BYTES + len(data))
        memory[begin : begin + len(body)] = body
        fence()  # the frame is visible before the word that announces it
        words[WRITTEN] = written + skipped + size
        fence()  # and the word is before the reader's listening words are read
        self._bells.ring(to, SCRIPT, BACKGROUND)
        return True

    def poll(self, take: Callable[[Frame], None]) -> int:
        for to, waiting in self._outbox.items():
            while waiting and self._write(to, *waiting[0]):
                waiting.popleft()
            if not waiting:
                self._to[to][0][BLOCKED] = 0
        return sum(self._read(source, take) for source in self._from)

    def _read(self, source: Rank, take: Callable[[Frame], None]) -> int:
        words, memory = self._from[source]
        num_frames = 0
        while words[WRITTEN] > words[READ] and num_frames < FRAMES_PER_POLL:
            read = words[READ]
            offset = read % self._capacity
            if memory[offset : offset + len(LAP)] == LAP:
                words[READ] = read + self._capacity - offset
                continue
            header = self._layout.read(memory[offset : offset + HEADER_BYTES])
            end = offset + HEADER_BYTES + header.data_bytes
            begin = offset + _lines(HEADER_BYTES + header.data_bytes)
            data = memory[offset + HEADER_BYTES : end]
            check_data(header, data)
            take(Frame(header, data, memory[begin : begin + header.body_bytes], source))
            num_frames += 1
            fence()  # the frame was read before its room is given back, and may be overwritten
            words[READ] = read + begin - offset + _lines(header.body_bytes)
        if num_frames:
            fence()  # READ is visible before BLOCKED is read, else the writer could miss the room and the bell
            if words[BLOCKED]:
                self._bells.ring(source, SCRIPT, BACKGROUND)
        return num_frames

    def forget(self, lost: Sequence[Rank]) -> None:
        for rank in lost:
            self._outbox[rank].clear()

    def reconnect(self, newcomers: Mapping[Rank, int], view: int) -> list[Rank]:
        """Nothing to do: a newcomer maps the rings of the process whose place it takes."""
        return []

    def outbox_bytes(self, to: Rank | None = None) -> int:
        chosen = self._outbox.values() if to is None else [self._outbox[to]]
        return sum(len(body) for waiting in chosen for _, _, body in waiting)

    def traffic(self) -> dict[Rank, Traffic]:
        return {}

    def fileno_set(self) -> list[int]:
        return []

    def door_set(self) -> list[int]:
        return []

    def is_answering(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing to do: the engine notices processes that end."""


def _lines(num_bytes: int) -> int:
    return -(-num_bytes // LINE) * LINE
