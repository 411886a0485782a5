"""What waits to leave on one connection, frame by frame: the most urgent frame first, equally urgent ones in order.

A frame that has begun to leave is finished before another begins. It may still grow meanwhile: of a large body that
must be copied, slices are copied while earlier ones leave.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice


class WaitingFrame:
    """The rest of one frame."""

    __slots__ = ("is_whole", "pieces")

    def __init__(self) -> None:
        self.pieces: deque[tuple[memoryview, Hashable | None]] = deque()
        """What waits, and for what it is lent; None: it was copied, or never changes."""
        self.is_whole = False
        """Nothing will be added to it."""


class Outbox:
    """The frames that wait."""

    def __init__(self) -> None:
        self._leaving: WaitingFrame | None = None
        self._later: dict[int, deque[WaitingFrame]] = {}
        """By urgency."""
        self.num_bytes = 0

    def __bool__(self) -> bool:
        return self._leaving is not None

    def begin(self, urgency: int = 0) -> WaitingFrame:
        """A new frame, to which `add` adds; some of it may have left already if nothing waits."""
        frame = WaitingFrame()
        if self._leaving is None:
            self._leaving = frame
        else:
            self._later.setdefault(urgency, deque()).append(frame)
        return frame

    def waits_for(self, frame: WaitingFrame) -> bool:
        """Whether the next bytes that leave are those that will be added to this frame."""
        return self._leaving is frame and not frame.pieces

    def add(self, frame: WaitingFrame, piece: memoryview, lent_for: Hashable | None = None) -> None:
        """Let a further piece of a frame wait."""
        frame.pieces.append((piece, lent_for))
        self.num_bytes += len(piece)

    def end(self, frame: WaitingFrame) -> None:
        """Nothing more will be added to this frame."""
        frame.is_whole = True
        self._go_on()

    def first(self, num_pieces: int) -> list[memoryview]:
        """The pieces that leave next, of one frame."""
        return [] if self._leaving is None else [piece for piece, _ in islice(self._leaving.pieces, num_pieces)]

    def drop(self, num_bytes: int) -> None:
        """So many bytes of what leaves next have left."""
        self.num_bytes -= num_bytes
        while num_bytes:
            assert self._leaving is not None
            piece, lent_for = self._leaving.pieces.popleft()
            if num_bytes < len(piece):
                self._leaving.pieces.appendleft((piece[num_bytes:], lent_for))
                return
            num_bytes -= len(piece)
        self._go_on()

    def _go_on(self) -> None:
        """Let the next frame leave if this one has left."""
        if self._leaving is None or self._leaving.pieces or not self._leaving.is_whole:
            return
        self._leaving = None
        if self._later:
            urgency = max(self._later)
            self._leaving = self._later[urgency].popleft()
            if not self._later[urgency]:
                del self._later[urgency]

    def take_back(self, lent_for: Hashable) -> int:
        """Copy what waits and is lent for this purpose; returns the number of copies."""
        num_copies = 0
        for frame in self._frames():
            for index, (piece, purpose) in enumerate(frame.pieces):
                if purpose == lent_for:
                    frame.pieces[index] = memoryview(bytes(piece)), None
                    num_copies += 1
        return num_copies

    def _frames(self) -> Iterator[WaitingFrame]:
        if self._leaving is not None:
            yield self._leaving
        for frames in self._later.values():
            yield from frames
