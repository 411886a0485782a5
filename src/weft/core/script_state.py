"""Where a worker's script stands, and which call takes it where: one table for both drivers.

What is not in the table is refused with an IllegalCall: a script that calls its worker from two threads at once, from
within backward() or from within a function that it reported, or after its end.

The script's memory is its own while it reads its parameters (`READS_PARAMS`): what others write then it sees when its
next iteration begins (rule 13 of docs/architecture.md).
"""

from collections.abc import Mapping
from typing import NoReturn

from weft.core.errors import IllegalCall

STARTED = "has not joined"
PREPARING = "has not begun to train"
"""It has joined; further models may join, and its tensors are not laid out yet."""
FILLING_FIRST = "runs its first backward()"
JOINED = "waits to begin"
RUNNING = "computes"
FILLING = "runs backward()"
IN_BACKWARD = "waits in backward()"
IN_STEP = "waits in step()"
IN_SHARE = "waits in share()"
IN_REPORT = "waits in report()"
REPORTING = "is in report()"
"""Its strategy has let it go on; the run has yet to hear of the report."""
IN_SAVE = "is in save()"
EVALUATING = "runs a function that it reported"
ENDED = "has ended"
NO_USER = "has no script"
STATES = (
    STARTED, PREPARING, FILLING_FIRST, JOINED, RUNNING, FILLING, IN_BACKWARD, IN_STEP, IN_SHARE, IN_REPORT, REPORTING,
    IN_SAVE, EVALUATING, ENDED, NO_USER,
)  # fmt: skip
"""Plain words: an Enum's members are slow to name."""

JOIN = "joined"
"""All workers' scripts have called weft.join; again, where several models join."""
BACKWARD = "called backward()"
STEP = "called step()"
SHARE = "called share()"
REPORT = "called report()"
SAVE = "called save()"
FILL = "filled a gradient"
"""Backward, still under way, has filled the first gradient of a joined model."""
BEGIN = "was laid out"
"""Its tensors are being laid out; it goes on when its strategy lets it make its first step."""
HEARD = "was heard"
"""Its strategy has taken the report."""
EVALUATE = "was asked for a number"
"""A function that it reported is run."""
RESUME = "was let go on"
EXIT = "ended"
CALLS = (JOIN, BACKWARD, STEP, SHARE, REPORT, SAVE, FILL, BEGIN, HEARD, EVALUATE, RESUME, EXIT)

MOVES: Mapping[str, Mapping[str, str]] = {
    STARTED: {JOIN: PREPARING},
    PREPARING: {
        JOIN: PREPARING,
        FILL: FILLING_FIRST,
        BACKWARD: IN_BACKWARD,
        STEP: IN_STEP,
        SHARE: IN_SHARE,
        REPORT: IN_REPORT,
        SAVE: IN_SAVE,
        BEGIN: JOINED,
        EXIT: ENDED,
    },
    FILLING_FIRST: {RESUME: PREPARING},
    JOINED: {RESUME: RUNNING},
    RUNNING: {
        FILL: FILLING,
        BACKWARD: IN_BACKWARD,
        STEP: IN_STEP,
        SHARE: IN_SHARE,
        REPORT: IN_REPORT,
        SAVE: IN_SAVE,
        EVALUATE: EVALUATING,
        EXIT: ENDED,
    },
    FILLING: {RESUME: RUNNING},
    IN_BACKWARD: {RESUME: RUNNING, EVALUATE: EVALUATING},
    IN_STEP: {RESUME: RUNNING, EVALUATE: EVALUATING},
    IN_SHARE: {RESUME: RUNNING, EVALUATE: EVALUATING},
    IN_REPORT: {HEARD: REPORTING, RESUME: RUNNING, EVALUATE: EVALUATING},
    REPORTING: {RESUME: RUNNING, EVALUATE: EVALUATING},
    IN_SAVE: {RESUME: RUNNING},
    EVALUATING: {},  # left for the state before it: in virtual time, others' reports are complete at any time
    ENDED: {EVALUATE: EVALUATING},  # a report that not all workers made is completed at the end
    NO_USER: {},
}
"""State x call -> state."""

BEFORE_TRAINING = frozenset({STARTED, PREPARING, FILLING_FIRST})
"""In these the script may still say what trains: further models, hyper-parameters that a population tunes."""
RUNS_BACKWARD = frozenset({FILLING_FIRST, FILLING})
"""In these backward() runs, and fills gradients of a joined model."""
READS_PARAMS = frozenset({RUNNING, FILLING, IN_BACKWARD, REPORTING, IN_SAVE, EVALUATING})
"""In these the script's own code, or its gradient, depends on the parameters as they are: others' writes wait."""

_ONE_THREAD = "Call a worker from one thread only, one call after the other."
_NOT_IN_HOOKS = "Call it after backward() has returned, not in a hook of a tensor or a module."
ADVICE: Mapping[str, str] = {
    STARTED: "Call weft.join(model, optimizer) first.",
    FILLING_FIRST: _NOT_IN_HOOKS,
    FILLING: _NOT_IN_HOOKS,
    EVALUATING: "A reported function may only look at the model and return a number; do the rest after report().",
    ENDED: "Call it before the script's last line; its exit handlers and threads come too late.",
    NO_USER: "Only workers have one.",
}
"""What to do about a call that is refused; of states without a word, that calls come one after the other."""


def refusal(state: str, call: str) -> IllegalCall:
    """Why a script that stands here cannot do that, and what to do instead."""
    when = "after" if state is ENDED else "while"
    return IllegalCall(f"the script {call} {when} it {state}.\n  {ADVICE.get(state, _ONE_THREAD)}")


class ScriptState:
    """Where one script stands: `at` is one of STATES. Its driver moves it; a seat may check first."""

    __slots__ = ("at",)

    def __init__(self, at: str = RUNNING) -> None:
        self.at = at

    def call(self, call: str) -> None:
        """Go where this call leads, or raise IllegalCall and stay."""
        self.at = MOVES[self.at].get(call) or self.refuse(call)

    def check(self, call: str) -> None:
        """Raise IllegalCall, as `call` would; go nowhere."""
        if call not in MOVES[self.at]:
            self.refuse(call)

    def during(self, call: str) -> "PassedState":
        """A context in which the script is in the state to which `call` leads; afterwards in the state it had before.

        For calls that do not change whether the script reads its parameters.
        """
        return PassedState(self, call)

    def begin(self) -> None:
        """Begin to train, unless it has: for loops that are left as they are, of which nothing is laid out."""
        if self.at is PREPARING:
            self.call(BEGIN)
            self.call(RESUME)

    def refuse(self, call: str) -> NoReturn:
        """Raise IllegalCall."""
        raise refusal(self.at, call)


class PassedState:
    """The context of `ScriptState.during`; by hand, since contextlib is none of the few modules that core/ may use."""

    __slots__ = ("_before", "_call", "_script")

    def __init__(self, script: ScriptState, call: str) -> None:
        self._script = script
        self._call = call
        self._before = script.at

    def __enter__(self) -> None:
        self._before = self._script.at
        self._script.call(self._call)

    def __exit__(self, *_: object) -> None:
        self._script.at = self._before
