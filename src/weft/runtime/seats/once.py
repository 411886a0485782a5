"""`weft.once` on a real worker: asks the engine whether to load a value, or maps what another worker has loaded."""

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Protocol

from weft.runtime.initial_values import add_piece
from weft.runtime.messages import Message, OnceAnswer, OnceAsked, OnceLoaded
from weft.runtime.view_messages import HandedOver, PieceAsked, PieceHanded

PIECE_BYTES = 64 << 10
"""Asked for at a time: a channel takes it at once, so that no engine waits for a process that does not read."""


class Sharing(Protocol):
    """Stores values of `weft.once` in a memfd and maps them from there (adapters/sharing.py)."""

    def store(self, fd: int, start: int, value: Any) -> tuple[bytes | None, int]: ...

    def append(self, fd: int, start: int, value: Any) -> tuple[bytes, int, int]: ...

    def load(self, fd: int, form: bytes) -> Any: ...

    def free(self, fd: int, start: int, stop: int) -> None: ...


class Once:
    """One worker's calls of `weft.once`. `expect` blocks until the engine sends a message of the given type."""

    def __init__(
        self, fd: int, sharing: Sharing, send: Callable[[Message], Any], expect: Callable[[type[Any]], Any]
    ) -> None:
        self._fd = fd
        self._sharing = sharing
        self._send = send
        self._expect = expect
        self._number = 0

    def hand_over(self, value: Any) -> tuple[bytes, int, int]:
        """Store a value for newcomers; returns its form, and where its arrays begin and end."""
        return self._sharing.append(self._fd, 0, value)

    def piece(self, asked: PieceAsked) -> PieceHanded:
        """A piece of a value that was handed over, for a newcomer of another host."""
        return PieceHanded(asked.newcomer, os.pread(self._fd, asked.stop - asked.start, asked.start))

    def take_over(self, form: bytes) -> Any:
        """A copy of a value that was handed over on this host."""
        return deepcopy(self._sharing.load(self._fd, form))

    def bring(self, handed: HandedOver, newcomer: int) -> Any:
        """A copy of a value that was handed over on another host, from which it is brought piece by piece."""
        fd = os.memfd_create("weft-handed")
        try:
            start = handed.start
            while start < handed.stop:
                stop = min(handed.stop, start + PIECE_BYTES)
                self._send(PieceAsked(handed.sponsor, newcomer, start, stop))
                start = add_piece(fd, start, self._expect(PieceHanded).piece)
            return deepcopy(self._sharing.load(fd, handed.state))
        finally:
            os.close(fd)

    def free(self, start: int, stop: int) -> None:
        """Free the memory of a value that all have taken over."""
        self._sharing.free(self._fd, start, stop)

    def get(self, key: object, load: Callable[[], Any]) -> Any:
        """The value of `load()`, loaded by one worker of this host for all."""
        name = f"{self._number}: {key}"
        self._number += 1
        self._send(OnceAsked(name))
        answer = self._expect(OnceAnswer)
        if answer.form is not None:
            return self._sharing.load(self._fd, answer.form) if answer.form else load()
        try:
            value = load()
        except BaseException:  # the others load it themselves then, instead of waiting for ever
            self._send(OnceLoaded(name, b"", answer.start))
            raise
        form, stop = self._sharing.store(self._fd, answer.start, value)
        self._send(OnceLoaded(name, form, stop))
        return value
