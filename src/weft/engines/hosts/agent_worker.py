"""A worker, as its host agent sees it: pidfd, channel, output and signals."""

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from weft.engines.real.worker_output import Output
from weft.runtime.channel import Channel
from weft.runtime.messages import Message


class AgentWorker:
    """A worker of the agent's host. It is signalled by its pidfd, since its pid may be reused for another process."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.channel: Channel | None = None
        """None until the worker has connected, and SO_PEERCRED has shown that it is process `pid`."""
        self.outputs: list[Output] = []
        self.signals = -1
        self.times_asked = 0
        self._said_before: list[Message] = []
        """Messages to the worker that wait until it has connected."""

    def let_in(self, end: socket.socket, fds: Sequence[int]) -> None:
        """The worker has connected: `end` is the agent's end of its channel; `fds` are its signal and output pipes."""
        self.channel = Channel(end)
        self.signals = fds[0]
        for message in self._said_before:
            self.say(message)

    def say(self, message: Message) -> None:
        """Send a message without blocking: a worker that does not read must not hold up the others."""
        if self.channel is None:
            self._said_before.append(message)
        elif not self.channel.is_closed:
            with suppress(ConnectionError):  # that the worker is gone is noticed by its pidfd
                self.channel.post(message)

    def flush(self) -> None:
        """Send as much of the waiting messages as the worker's socket takes."""
        if self.channel is not None and not self.channel.is_closed:
            with suppress(ConnectionError):
                self.channel.flush()

    def kill(self, *, is_known: bool = False) -> None:
        """Send SIGKILL by pidfd, if the worker has connected or the caller knows its process (`is_known`).

        Otherwise its pid is only what a note at the rendezvous claimed. Then the process is left alone; a worker ends
        by itself, because the agent does not let it in any more.
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
