"""The abstract Unix socket at which a host's workers meet their agent, and the worker's side of it."""

import os
import socket
import subprocess
import time

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.engines.hosts import timeouts
from weft.engines.real.fd_passing import receive_fds
from weft.runtime.channel import peer_of

LET_IN = b"let in"
"""From a host agent to a worker, with descriptors: the worker's end of its channel, and the host's shared memory."""


class Hello(Struct, frozen=True):
    """From a worker to its host agent, with descriptors (SCM_RIGHTS): a pipe to which the worker writes a byte per
    signal that it gets, and its output's pipes if the controller is to show the output."""

    rank: int


def address_of(token: str, host: int) -> str:
    """The abstract address (leading NUL) of the agent of `host`: it has no file, and disappears with the agent."""
    return f"\0weft/{token}/{host}"


def meet(
    token: str,
    host: int,
    rank: int,
    written: list[int],
    timeout_s: float,
    started: "subprocess.Popen[bytes] | None" = None,
) -> tuple[int, list[int], int]:
    """Connect to the host agent; returns descriptors: the worker's channel, the host's memory, and the signal pipe.

    The worker writes a byte to the signal pipe when it gets a signal. `written` are the pipes of its output, if the
    controller is to show it; `started` is the host agent's process, for the worker that started it. The host agent must
    be a process of the same user (SO_PEERCRED).
    """
    deadline_s = time.monotonic() + timeout_s
    while (end := _called(address_of(token, host))) is None:
        if started is not None and started.poll() is not None:
            raise TransportError(
                f"the host agent (pid {started.pid}) ended before worker {rank} met it: exit code "
                f"{started.returncode}.\n  What it printed may say why."
            )
        if time.monotonic() > deadline_s:
            who = "" if started is None else f" (pid {started.pid})"
            raise TransportError(
                f"worker {rank} waited {timeout_s:g} s for the host agent{who}.\n"
                "  What it printed may say why; if it printed nothing, it may be stopped."
            )
        time.sleep(timeouts.AGENT_CALLED_S)
    with end:
        pid, uid = peer_of(end)
        if uid != os.geteuid():
            raise TransportError(f"the host agent is a process of user {uid}, a stranger.\n  Is it yours?")
        end.settimeout(max(deadline_s - time.monotonic(), timeouts.AGENT_CALLED_S))
        readable, writable = os.pipe()
        try:
            socket.send_fds(end, [msgspec.json.encode(Hello(rank))], [readable, *written])
            got = receive_fds(end)
        except TimeoutError as error:
            os.close(writable)
            raise TransportError(
                f"the host agent (pid {pid}) did not answer worker {rank} for {timeout_s:g} s.\n"
                f"  If it was stopped, 'kill -CONT {pid}' lets it go on."
            ) from error
        except OSError:  # the host agent closed the connection
            got = None
        finally:
            os.close(readable)
    if got is None:
        os.close(writable)
        raise TransportError(
            f"the host agent (pid {pid}) did not let worker {rank} in.\n  What it printed may say why."
        )
    channel, *memories = got[1]
    return channel, memories, writable


def _called(address: str) -> socket.socket | None:
    """A connection to the socket at `address`; None if no process listens there, or its backlog is full."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.setblocking(False)
    try:
        end.connect(address)
    except OSError:
        end.close()
        return None
    return end
