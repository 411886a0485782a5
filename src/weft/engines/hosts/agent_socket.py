"""Where a worker and the host agent find each other, and the worker's side of their meeting."""

import os
import socket
import subprocess
import time

import msgspec
from msgspec import Struct

from weft.core.errors import TransportError
from weft.engines.local.fork_server import receive_fds
from weft.runtime.channel import peer_of

MOMENT_S = 0.01


class Hello(Struct, frozen=True):
    """A worker to its host agent, with descriptors: a pipe with the signals that it gets, and pipes with its output if
    that is shown elsewhere."""

    rank: int


def address_of(token: str, host: int) -> str:
    """The address of a host's agent: a name without a file, which is gone with the host agent."""
    return f"\0weft/{token}/{host}"


def meet(
    token: str,
    host: int,
    rank: int,
    written: list[int],
    timeout_s: float,
    started: "subprocess.Popen[bytes] | None" = None,
) -> tuple[int, list[int], int]:
    """A worker's side: its channel, the memory of its host, and where to write what signals tell it.

    `written` are pipes with what it writes, if the controller is to show that; `started` is the host agent, for the
    worker that started it. The host agent must be a process of the same user (SO_PEERCRED).
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
        time.sleep(0.01)
    with end:
        pid, uid = peer_of(end)
        if uid != os.geteuid():
            raise TransportError(f"the host agent is a process of user {uid}, a stranger.\n  Is it yours?")
        end.settimeout(max(deadline_s - time.monotonic(), MOMENT_S))
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
        except OSError:  # it hung up
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
    """A connection to whoever listens there; None if nobody does, or too many wait already."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.setblocking(False)
    try:
        end.connect(address)
    except OSError:
        end.close()
        return None
    return end
