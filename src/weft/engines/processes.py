"""Processes of Weft's own that outlive whoever starts them: they are told what to do on standard input."""

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from weft.engines.secret import VARIABLE
from weft.engines.stopped import Stops, process_state
from weft.interpreter import python_module

STOPPED_S = 1.0
"""One that is stopped for longer is ended: before others take its silence for its host's, and end who watches it."""
LOOK_S = 0.2
"""How often the system is asked whether they are stopped."""
STDERR = 2

_started: list["subprocess.Popen[bytes]"] = []
"""Kept, so that nobody complains of those that still run."""


def start_apart(
    name: str, module: Sequence[str], orders: bytes, descriptors: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a module of Weft's in a session of its own, with orders that nobody else can see.

    What is secret comes with the orders: the environment, which other processes of this user can read, is without it.
    While this process lives, a thread of it ends what it has started, which `name` says to people, if that is stopped.
    """
    process = subprocess.Popen(
        python_module(module[0], module[1:]),
        stdin=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )
    _started.append(process)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:  # one that was killed meanwhile is missed by those who need it
        process.stdin.write(orders)
    about = name, process
    threading.Thread(target=_end_if_stopped, args=about, name=f"weft watch over {name}", daemon=True).start()
    return process


def _end_if_stopped(name: str, process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that is stopped for too long: who waits for it sees its connections end then."""
    stops = Stops[int]()
    while process.poll() is None:
        stopped = stops.see({process.pid: process_state(process.pid)}, time.monotonic())
        if stopped.get(process.pid, 0.0) > STOPPED_S:
            say(
                f"weft: {name} (pid {process.pid}) is stopped: it is ended, and the run with it.\n"
                "  Find out who stopped it."
            )
            process.kill()
        time.sleep(LOOK_S)


def say(text: str) -> None:
    """Write to standard error, whatever the script has made of `sys.stderr`, and whether or not anybody reads it."""
    with suppress(OSError):
        os.write(STDERR, f"{text}\n".encode())
