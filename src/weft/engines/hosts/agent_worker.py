"""A worker, as its host agent sees it: pidfd, channel, output and signals."""

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from weft.engines.real.worker_output import Output
from weft.runtime.channel import Channel, Message, packed


class AgentWorker:
    """A worker of the agent's host. It is signalled by its pidfd, since a pid may be given to another process."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel: Channel | None = None
        """None until the worker has connected, and SO_PEERCRED has shown that it is process `pid`."""
        self.outputs: list[Output] = []
        self.signals = -1
        self.times_asked = 0
        self._end: socket.socket | None = None
        self._outbox = bytearray()

    def let_in(self, end: socket.socket, fds: Sequence[int]) -> None:
        """Take over a worker that has connected: `end` of its channel; `fds[0]`, the pipe with the signals it gets."""
        self._end = end
        self.channel = Channel(end)
        self.signals = fds[0]

    def say(self, message: Message) -> None:
        """Send `message` without blocking: a worker that does not read must not hold up the others."""
        self._outbox += packed(message)
        self.flush()

    def flush(self) -> None:
        """Send what the socket's buffer takes (MSG_DONTWAIT). The pidfd, not this, tells that a worker is gone."""
        if self._end is None or self.channel is None or self.channel.is_closed:
            return
        with suppress(BlockingIOError, ConnectionError):
            while self._outbox:
                del self._outbox[: self._end.send(self._outbox, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)]

    def kill(self, *, is_known: bool = False) -> None:
        """Send SIGKILL by pidfd, if the worker has connected or the caller knows its process (`is_known`).

        Otherwise its pid is only what a note at the rendezvous claimed. It is left alone, and ends by itself because
        the agent does not let it in any more.
        """
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
