"""Finds which worker made a run fail, and makes the error: worker, host, pid, step, cause, what others waited for."""

import signal
from collections.abc import Sequence
from typing import Protocol, TypeVar

from weft.config.extras import advice_on_import
from weft.core import errors
from weft.core.errors import ConfigError, NodeLost, WeftError
from weft.core.leaving import ScriptLeft, in_words
from weft.engines.real.exit_status import how_it_ended
from weft.runtime.messages import Failed, Halted
from weft.runtime.seats.engine_seat import OTHERS_TO_JOIN

SECOND_HAND = ("NodeLost", "TransportError")
"""Errors by which a worker says that another one is gone."""


class Suspect(Protocol):
    """What is known of a worker process, to find which worker made the run fail."""

    rank: int
    host: str
    pid: int
    exit_code: int | None
    lost: str
    """Why nothing is known of the worker any more, such as the loss of its host; empty otherwise."""
    failed: Failed | None
    halted: Halted | None
    is_alive: bool
    has_joined: bool
    """Its script has called weft.join."""
    has_finished: bool
    """The worker has sent `Concluded`: its script ended without an error."""

    @property
    def moment(self) -> str:
        """Where the script was when the worker was last heard of."""
        ...


S = TypeVar("S", bound=Suspect)


def is_silent_death(worker: Suspect) -> bool:
    """Whether the process ended without having sent `Concluded`, `Failed` or `Halted`."""
    return not (worker.is_alive or worker.has_finished or worker.failed is not None or worker.halted is not None)


def _is_second_hand(failed: Failed) -> bool:
    """Whether the error only says that another worker is gone. A script's own errors come with a traceback."""
    return failed.error in SECOND_HAND and not failed.traceback


def has_left(failed: Failed) -> bool:
    """Whether the script left by sys.exit. An error of the script's own with that name would have a traceback."""
    return failed.error == ScriptLeft.__name__ and not failed.traceback


def blame(workers: Sequence[S]) -> S | None:
    """The worker to blame: one that died without a message; else one that failed itself; else one that failed because
    of another; None if none failed."""
    silent = [w for w in workers if is_silent_death(w)]
    failed = [w for w in workers if w.failed is not None]
    first_hand = [w for w in failed if w.failed is not None and not _is_second_hand(w.failed)]
    return next(iter([*silent, *first_hand, *failed]), None)


def name(worker: Suspect) -> str:
    """A worker's name in messages: rank, host and pid."""
    return f"worker {worker.rank} (host {worker.host}, pid {worker.pid})"


def describe(guilty: Suspect, workers: Sequence[Suspect]) -> WeftError:
    """The error that ends the run; the script's own traceback, if there is one, is its `traceback`."""
    called = name(guilty)
    waiting = [line for w in workers if w is not guilty for line in _was_waiting(w)]
    failed = guilty.failed
    if failed is None:
        cause = guilty.lost or how_it_ended(guilty.exit_code)
        first = f"{called} stopped {guilty.moment}: {cause}."
        return NodeLost("\n".join([first, *waiting, f"  {_advice_on(guilty)}"]))
    when = f"at step {failed.step}" if guilty.has_joined or failed.step else "before it joined"
    if failed.traceback or has_left(failed):
        text = f"{called} {in_words(failed.error, when, failed.text)}"
        text += advice_on_import(failed.error, failed.text)
        lost = NodeLost("\n".join([text, *waiting]))
        lost.traceback = failed.traceback
        lost.exit_code, lost.is_said = failed.exit_code, failed.is_said
        return lost
    kind = getattr(errors, failed.error, WeftError)
    assert issubclass(kind, WeftError)
    if issubclass(kind, ConfigError):
        return kind(failed.text)
    return kind("\n".join([f"{called} failed {when}: {failed.text}", *waiting]))


def also(error: WeftError, lines: Sequence[str]) -> WeftError:
    """Append `lines` to the error's message, except to a ConfigError, which says enough."""
    if lines and not isinstance(error, ConfigError):
        error.args = ("\n".join([str(error), *lines]),)
    return error


def _was_waiting(worker: Suspect) -> list[str]:
    """A line that says what `worker` waited for when it was halted, or when it noticed that another one was gone."""
    halted, failed = worker.halted, worker.failed
    if halted is None and failed is not None and _is_second_hand(failed):
        halted = Halted(failed.step, failed.doing)
    if halted is None:
        return []
    if not worker.has_joined and not halted.step:
        return [f"  Worker {worker.rank} had not joined yet."]
    where = "" if halted.waiting_for == OTHERS_TO_JOIN else f"at step {halted.step}, "
    return [f"  Worker {worker.rank} was {where}waiting for {halted.waiting_for}."]


def _advice_on(guilty: Suspect) -> str:
    if guilty.lost:
        return "Is that host up, and its network? weft doctor --cluster says more."
    return _advice(guilty.exit_code)


def _advice(code: int | None) -> str:
    if code is None:
        return "Its launcher (torchrun, srun) says with which code; if it was killed, memory may have run out."
    if code == -signal.SIGKILL:
        return "If nobody killed it, memory may have run out (see dmesg): use fewer workers or a smaller batch."
    if code == -signal.SIGSEGV:
        return "A library crashed in native code: run the script alone with python -X faulthandler."
    return "Run the script alone with python to see more."
