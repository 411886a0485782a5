"""Events: the facts a peer is told, in the past tense.

The vocabulary is closed (rule 7 of docs/architecture.md, which has all thirteen).
"""

from collections.abc import Mapping

from weft.core.names import Buffer, NodeId
from weft.core.records import record

Data = Mapping[str, object]
"""What a message says besides its body: plain and small, 4 KiB at most."""

DATA_BYTES_MAX = 4096


@record
class Started:
    """Begin."""

    view: int


@record
class GradientReady:
    """Backward filled gradient[bucket]."""

    step: int
    bucket: int
    samples: float


@record
class StepFinished:
    """The user called `optimizer.step()`: what stands in `gradient` counts, edits included."""

    step: int
    samples: float
    loss: float | None


@record
class PortionAsked:
    """The user's share, the n-th of its script, wants one more of its so many portions; Compute answers.

    Told only where the strategy deals portions. A portion that led to no step until then counts for nothing.
    """

    share: int
    num_portions: int


@record
class EpochFinished:
    """The user reported."""

    epoch: int
    numbers: Mapping[str, float]


@record
class Received:
    """A message came; its body lives until the actions that answer this event are done (rule 5)."""

    source: NodeId
    kind: str
    clock: int
    bucket: int
    body: Buffer | None
    weight: float
    data: Data | None


@record
class Returned:
    """A message will never arrive; every Send ends in one Received there or one Returned here.

    `view` is the one in which it was sent. In the peer's own view, the channel broke: all that was under way on
    it is returned at once, in the order in which it was sent. Of an older view, it did not arrive before the change.
    """

    target: NodeId
    kind: str
    clock: int
    bucket: int
    body: Buffer | None
    weight: float
    data: Data | None = None
    view: int = 0


@record
class Reduced:
    """A collective ended; `weight` is the total present (0: the buffer is unchanged)."""

    clock: int
    buffer: Buffer
    weight: float


@record
class TimerFired:
    """A timer set with SetTimer came due."""

    name: str


@record
class MembersChanged:
    """Somebody was lost, joined or finished; the engine's store decided it. What was sent before and did not
    arrive is Returned next; reductions under way never happened (rule 12)."""

    view: int
    members: tuple[NodeId, ...]
    reason: str


Event = (
    Started
    | GradientReady
    | StepFinished
    | PortionAsked
    | EpochFinished
    | Received
    | Returned
    | Reduced
    | TimerFired
    | MembersChanged
)
