"""The one tree of errors.

WeftError
├── ConfigError            what was asked for cannot run; raised before anything starts (exit 2)
├── IllegalCall            a script called its worker where it may not: from within backward(), say
├── ProtocolError          a conversation between nodes broke; carries its node's story
│   ├── IllegalAction      a bug in this node's strategy
│   └── UnexpectedMessage  a bug in another node's strategy
├── Deadlock               nothing can ever happen again, and somebody still waits
├── TransportError         bytes could not be moved
├── NodeLost               a node stopped, crashed or went silent
├── NotFinite              a worker's parameters are NaN or infinite where others would mix them with theirs
├── ReplicasDiffer         replicas that a strategy keeps equal are not
├── CodecError             a payload could not be decoded
└── CheckpointError        a checkpoint could not be written or read

A message says what happened, what was expected and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches

NAME_CHARACTERS_MAX = 100
"""A longer name is near to none: comparing it would take long."""


class WeftError(Exception):
    """Anything Weft reports to its user. A command that it ends has `exit_code`."""

    exit_code = 1
    before_join = False
    """The script failed before it called weft.join: it does so in whichever way it is to train."""


class ConfigError(WeftError):
    """What was asked for cannot run; the message says what to write instead."""

    exit_code = 2


class IllegalCall(WeftError):
    """A script called its worker where it may not; core/script_state.py says where it may."""


class ProtocolError(WeftError):
    """A conversation between nodes broke; `story` holds the last events and actions of its node."""

    def __init__(self, message: str, story: str = "") -> None:
        super().__init__(message, story)
        self.message = message
        self.story = story

    def __str__(self) -> str:
        return f"{self.message}\n{self.story}" if self.story else self.message


class IllegalAction(ProtocolError):
    """A strategy emitted an action that its node may not perform now."""


class UnexpectedMessage(ProtocolError):
    """A node received what its protocol does not know."""


class Deadlock(WeftError):
    """Nothing can ever happen again, and somebody still waits."""


class TransportError(WeftError):
    """Bytes could not be moved."""


class NodeLost(WeftError):
    """A node stopped, crashed or went silent; `traceback` is its script's own, if that is why.

    A script that left with a code gives `exit_code`; if it has said why by itself, with help or as argparse does,
    `is_said`, and there is nothing to add.
    """

    traceback: str = ""
    is_said: bool = False


class NotFinite(WeftError):
    """A worker's parameters are NaN or infinite where others would mix them with theirs."""


class ReplicasDiffer(WeftError):
    """Replicas that a strategy keeps equal are not."""


class CodecError(WeftError):
    """A payload could not be decoded."""


class CheckpointError(WeftError):
    """A checkpoint could not be written or read."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A sentence that names the nearest of `known`; when none is near, `otherwise` or, without it, all of them."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5) if len(name) <= NAME_CHARACTERS_MAX else []
    if near:
        return f"Did you mean '{near[0]}'?"
    if otherwise is not None:
        return otherwise
    return f"Known: {', '.join(known)}." if known else "None are known."
