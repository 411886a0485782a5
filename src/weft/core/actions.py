"""Actions: the commands a peer answers with, in the imperative.

The vocabulary is closed (rule 7 of docs/architecture.md, which has all thirteen).
"""

from collections.abc import Collection, Sequence

from weft.core.errors import IllegalAction
from weft.core.events import DATA_BYTES_MAX, Data
from weft.core.names import GRADIENT, Buffer, NodeId
from weft.core.records import record

MEAN = "mean"
SUM = "sum"
MAX = "max"
OPS = (MEAN, SUM, MAX)

INNER = "inner"
"""The rule that is the user's own optimizer."""


@record
class Compute:
    """Let the user's iteration run, reading `params` as of now (rule 13).

    `portion` says which portion of its share the iteration takes, and is given in answer to PortionAsked only; None
    then means that the share is over.
    """

    step: int
    portion: int | None = None


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
class Encode:
    """into = what the codec of `kind` says of source + residual; the residual keeps what it leaves out.

    `into` is coded from then on: when it is sent it travels as it is, and when it is added it is decoded on the way.
    A copy of what is coded is coded, too. `given` is what some codecs need besides: a velocity, or what was agreed on.
    """

    kind: str
    clock: int
    into: Buffer
    source: Buffer
    residual: Buffer | None = None
    given: Buffer | None = None


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


Action = Compute | Send | Reduce | Combine | Encode | Apply | SetTimer | Note | Stop


def copy(into: Buffer, source: Buffer) -> Combine:
    """into = source."""
    return Combine(into, 0.0, source)


def add(into: Buffer, source: Buffer, scale: float = 1.0) -> Combine:
    """into += scale * source."""
    return Combine(into, 1.0, source, scale)


def rescale(into: Buffer, keep: float) -> Combine:
    """into *= keep."""
    return Combine(into, keep)


def is_same_message(first: Send, action: Send) -> bool:
    """Two actions that differ in their target only; told by identity, which is how peers repeat themselves."""
    return (
        action.body is first.body
        and action.kind is first.kind
        and action.clock == first.clock
        and action.bucket == first.bucket
        and action.weight == first.weight
        and action.data is first.data
    )


def is_same_update(first: Apply, action: Apply) -> bool:
    """Two actions that differ in their bucket only."""
    return (
        action.rule == first.rule
        and action.scale == first.scale
        and action.into.slot == first.into.slot
        and action.gradient.slot == first.gradient.slot
    )


def updates_from(actions: Sequence[Action], place: int) -> list[Apply]:
    """The update at `place` with those of other buckets that follow it, which go together."""
    first = actions[place]
    assert isinstance(first, Apply)
    updates = [first]
    for action in actions[place + 1 :]:
        if not isinstance(action, Apply) or not is_same_update(first, action):
            break
        updates.append(action)
    return updates


def check_send(action: Send, kinds: Collection[str], num_nodes: int) -> None:
    """Refuse a message of an undeclared kind, with too much data, or to nobody."""
    if action.kind not in kinds:
        raise IllegalAction(f"{action} is not of a declared kind ({', '.join(sorted(kinds))}).")
    if action.data is not None and len(repr(action.data)) > DATA_BYTES_MAX:
        raise IllegalAction(f"'{action.kind}' carries more than {DATA_BYTES_MAX} bytes of data; use its body.")
    if not 0 <= action.to < num_nodes:
        raise IllegalAction(f"{action} goes to a node that is not of the world (0 to {num_nodes - 1}).")


def check_stepped(update: Apply, *, has_stepped: bool) -> None:
    """Refuse to apply the script's own gradient before its step has finished (rule 11)."""
    if update.gradient.slot == GRADIENT and not has_stepped:
        raise IllegalAction(
            f"{update} came before StepFinished; the user may still edit the gradient "
            "(rule 11 of docs/architecture.md)."
        )
