"""Starts Weft's own processes (fork server, host agent, controller, bridge), and kills them if they are stopped.

Threads: "weft start of ..." lives while Popen blocks and is ended by a threading.Event; "weft watch over ..." lives
as long as the process it watches. Both only read /proc and send SIGKILL.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from weft.engines.real.secret import VARIABLE
from weft.engines.real.stopped_processes import Stops, children_of, process_state
from weft.interpreter import python_module

STOPPED_S = 1.0
"""A process that is stopped for longer is killed: before the controller takes its silence for the loss of its host."""
LOOK_S = 0.2
"""How often process states are read from /proc."""
STDERR = 2

_started: list["subprocess.Popen[bytes]"] = []
"""Popen objects are kept here, because Popen.__del__ warns (ResourceWarning) if its process still runs."""


def start(name: str, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a process as `subprocess.Popen` does, which blocks until the child has called execve.

    A child that is stopped before that is named and killed; otherwise Popen would block for ever.
    """
    is_over = threading.Event()
    about = name, set(children_of(os.getpid())), is_over
    with suppress(RuntimeError):  # "can't start new thread": Popen will fail for the same reason, and say so
        threading.Thread(target=_end_stopped_children, args=about, name=f"weft start of {name}", daemon=True).start()
    try:
        return subprocess.Popen(command, **options)
    finally:
        is_over.set()


def _end_stopped_children(name: str, before: set[int], is_over: threading.Event) -> None:
    stops = Stops[int]()
    while not is_over.wait(LOOK_S):
        states = {pid: process_state(pid) for pid in children_of(os.getpid()) if pid not in before}
        for pid, stopped_s in stops.see(states, time.monotonic()).items():
            if stopped_s > STOPPED_S:
                say(
                    f"weft: {name} (pid {pid}) is stopped before it has begun: it is ended.\n  Find out who stopped it."
                )
                os.kill(pid, signal.SIGKILL)


def start_apart(
    name: str, module: Sequence[str], orders: bytes, descriptors: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a module of Weft that outlives this process, in a session of its own (setsid), with `orders` on its stdin.

    Secrets come with `orders`: WEFT_SECRET is removed from the environment, which /proc shows to this user's processes.
    While this process lives, a thread kills the new one if it is stopped; messages call it `name`.
    """
    process = start(
        name,
        python_module(module[0], module[1:]),
        stdin=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != VARIABLE},
    )
    _started.append(process)
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:  # if it was killed meanwhile, processes that need it time out
        process.stdin.write(orders)
    about = name, process
    threading.Thread(target=_end_if_stopped, args=about, name=f"weft watch over {name}", daemon=True).start()
    return process


def _end_if_stopped(name: str, process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that is stopped for longer than STOPPED_S: its connections end, so that others notice."""
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
    """Write `text` to descriptor 2, whatever the script has assigned to `sys.stderr`; ignores a closed pipe."""
    with suppress(OSError):
        os.write(STDERR, f"{text}\n".encode())
