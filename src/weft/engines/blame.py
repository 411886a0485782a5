"""Who ended a run, and how to say it: node, host, process, step, cause, who was waiting, what to do next."""

import signal
import socket
from collections.abc import Sequence
from typing import Protocol, TypeVar

from weft.core import errors
from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.observe.status import Status
from weft.runtime.channel import Failed, Halted
from weft.runtime.engine_seat import HALT_EXIT_CODE

SECOND_HAND = ("NodeLost", "TransportError")
"""Errors by which a worker says that another one is gone."""


class Suspect(Protocol):
    """A worker process, as far as blame goes."""

    rank: int
    status: Status | None
    failed: Failed | None
    halted: Halted | None
    is_alive: bool

    @property
    def exit_code(self) -> int | None: ...

    @property
    def pid(self) -> int: ...


S = TypeVar("S", bound=Suspect)


def blame(workers: Sequence[S]) -> S | None:
    """Who died without a word; else who failed at first hand; else who failed."""
    silent = [w for w in workers if not w.is_alive and w.failed is None and w.exit_code not in (0, HALT_EXIT_CODE)]
    failed = [w for w in workers if w.failed is not None]
    first_hand = [w for w in failed if w.failed is not None and w.failed.error not in SECOND_HAND]
    return next(iter([*silent, *first_hand, *failed]), None)


def describe(guilty: Suspect, workers: Sequence[Suspect]) -> WeftError:
    """The error that ends the run; a script's own traceback is the last thing it says."""
    step = guilty.status.step if guilty.status is not None else 0
    name = f"worker {guilty.rank} (host {socket.gethostname()}, pid {guilty.pid})"
    waiting = [line for w in workers if w is not guilty for line in _was_waiting(w)]
    failed = guilty.failed
    if failed is None:
        cause = _cause(guilty.exit_code)
        return NodeLost(
            "\n".join([f"{name} stopped at step {step}: {cause}.", *waiting, f"  {_advice(guilty.exit_code)}"])
        )
    kind = getattr(errors, failed.error, None)
    if isinstance(kind, type) and issubclass(kind, ConfigError):
        return kind(failed.text)
    if isinstance(kind, type) and issubclass(kind, WeftError):
        return kind("\n".join([f"{name} failed at step {failed.step}: {failed.text}", *waiting]))
    lost = NodeLost("\n".join([f"{name} raised {failed.error} at step {failed.step}: {failed.text}", *waiting]))
    lost.traceback = failed.traceback
    return lost


def _was_waiting(worker: Suspect) -> list[str]:
    """What a worker waited for when it was told to end, or noticed by itself that another one was gone."""
    halted, failed = worker.halted, worker.failed
    if halted is None and failed is not None and failed.error in SECOND_HAND:
        halted = Halted(failed.step, failed.doing)
    return (
        []
        if halted is None
        else [f"  Worker {worker.rank} was at step {halted.step}, waiting for {halted.waiting_for}."]
    )


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        known = {int(each): f" ({each.name})" for each in signal.Signals}  # real-time signals have no names
        return f"killed by signal {-code}{known.get(-code, '')}"
    return f"its process ended with code {code}"


def _advice(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "If nobody killed it, memory may have run out (see dmesg): use fewer workers or a smaller batch."
    if code == -signal.SIGSEGV:
        return "A library crashed in native code: run the script alone with python -X faulthandler."
    return "Run the script alone with python to see more."
