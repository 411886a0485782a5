"""Actions: the commands a peer answers with, in the imperative. The vocabulary is closed (rule 7)."""

from weft.core.events import Data
from weft.core.names import Buffer, NodeId
from weft.core.records import record

MEAN = "mean"
SUM = "sum"
MAX = "max"
OPS = (MEAN, SUM, MAX)

INNER = "inner"
"""The rule that is the user's own optimizer."""


@record
class Compute:
    """Let the user's iteration run, reading `params` as of now (rule 13)."""

    step: int


@record
class Send:
    """Send the value that `body` has now (rule 4)."""

    to: NodeId
    kind: str
    clock: int
    bucket: int
    body: Buffer | None = None
    weight: float = 1.0
    data: Data | None = None


@record
class Reduce:
    """Weighted mean (or sum, max) over the group, summed in rank order."""

    group: tuple[NodeId, ...]
    kind: str
    clock: int
    buffer: Buffer
    op: str
    weight: float


@record
class Combine:
    """into = keep*into + scale*add (⊙ times); without `add`, into = keep*into.

    A scale of 0 adds nothing, whatever `add` holds: a weight of 0 is legal, and 0 times NaN is not 0.
    """

    into: Buffer
    keep: float
    add: Buffer | None = None
    scale: float = 1.0
    times: Buffer | None = None


@record
class Apply:
    """Run a named update rule; `scale` multiplies its learning rate, and 0 is no update at all."""

    gradient: Buffer
    into: Buffer
    rule: str = INNER
    scale: float = 1.0


@record
class SetTimer:
    """Ask for TimerFired(name) at the time `at`, in seconds."""

    name: str
    at: float


@record
class Note:
    """A named number for whoever observes."""

    name: str
    value: float


@record
class Stop:
    """End the run."""

    reason: str


Action = Compute | Send | Reduce | Combine | Apply | SetTimer | Note | Stop


def copy(into: Buffer, source: Buffer) -> Combine:
    """into = source."""
    return Combine(into, 0.0, source)


def add(into: Buffer, source: Buffer, scale: float = 1.0) -> Combine:
    """into += scale * source."""
    return Combine(into, 1.0, source, scale)


def rescale(into: Buffer, keep: float) -> Combine:
    """into *= keep."""
    return Combine(into, keep)
