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

from weft.engines.real import timeouts
from weft.engines.real.secret import VARIABLE
from weft.engines.real.stopped_processes import Stops, children_of, process_state
from weft.interpreter import python_module

STDERR = 2

_started: list["subprocess.Popen[bytes]"] = []
"""Popen objects are kept here, because Popen.__del__ warns (ResourceWarning) if its process still runs."""


def start(name: str, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a process as `subprocess.Popen` does, which blocks until the child has called execve.

    If the child is stopped (SIGSTOP) before that, it is reported and killed: otherwise Popen would block for ever.
    """
    is_over = threading.Event()
    before = set(children_of(os.getpid()))
    with suppress(RuntimeError):  # if the system gives no thread, Popen fails below, and says why
        threading.Thread(
            target=_end_stopped_children, args=(name, before, is_over), name=f"weft start of {name}", daemon=True
        ).start()
    try:
        return subprocess.Popen(command, **options)
    finally:
        is_over.set()


def _end_stopped_children(name: str, before: set[int], is_over: threading.Event) -> None:
    stops = Stops[int]()
    while not is_over.wait(timeouts.HELPER_LOOK_S):
        states = {pid: process_state(pid) for pid in children_of(os.getpid()) if pid not in before}
        for pid, stopped_s in stops.see(states, time.monotonic()).items():
            if stopped_s > timeouts.HELPER_STOPPED_S:
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
    threading.Thread(target=_end_if_stopped, args=(name, process), name=f"weft watch over {name}", daemon=True).start()
    return process


def _end_if_stopped(name: str, process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that is stopped for longer than HELPER_STOPPED_S: its connections end, so that others notice."""
    stops = Stops[int]()
    while process.poll() is None:
        stopped = stops.see({process.pid: process_state(process.pid)}, time.monotonic())
        if stopped.get(process.pid, 0.0) > timeouts.HELPER_STOPPED_S:
            say(
                f"weft: {name} (pid {process.pid}) is stopped: it is ended, and the run with it.\n"
                "  Find out who stopped it."
            )
            process.kill()
        time.sleep(timeouts.HELPER_LOOK_S)


def say(text: str) -> None:
    """Write `text` to descriptor 2, whatever the script has assigned to `sys.stderr`; ignores a closed pipe."""
    with suppress(OSError):
        os.write(STDERR, f"{text}\n".encode())
