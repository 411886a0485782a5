"""A worker of a host, as the host's agent looks after it."""

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from weft.engines.real.worker_output import Output
from weft.runtime.channel import Channel, packed
from weft.runtime.messages import Message


class AgentWorker:
    """A worker of this host."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel: Channel | None = None
        """None until it has come, and proved by its system that it is that process."""
        self.outputs: list[Output] = []
        self.signals = -1
        self.times_asked = 0
        self._end: socket.socket | None = None
        self._outbox = bytearray()

    def let_in(self, end: socket.socket, fds: Sequence[int]) -> None:
        """It has come: its end of the channel, where signals to it are read, and what it writes."""
        self._end = end
        self.channel = Channel(end)
        self.signals = fds[0]

    def say(self, message: Message) -> None:
        """Tell it something, without waiting: one that does not listen must not hold up the others."""
        self._outbox += packed(message)
        self.flush()

    def flush(self) -> None:
        """Send what its socket takes; one that is gone is buried by others."""
        if self._end is None or self.channel is None or self.channel.is_closed:
            return
        with suppress(BlockingIOError, ConnectionError):
            while self._outbox:
                del self._outbox[: self._end.send(self._outbox, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)]

    def kill(self, *, is_known: bool = False) -> None:
        """End it. One that never came is only known by name, unless the caller knows more: it ends by itself, for
        nobody lets it in any more."""
        if self.channel is not None or is_known:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        if self.channel is not None:
            self.channel.close()
            os.close(self.signals)
        for output in self.outputs:
            if not output.is_closed:
                output.close()
        os.close(self.pidfd)
